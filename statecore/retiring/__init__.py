"""Takes the oldest events out of the database, into files that stay verifiable together with what is left.

A range of positions is written to a file, read back and verified; then one transaction records it, keeps an anchor for
each entity, and deletes the events. Killed at any moment, it has either happened or not.
"""

from .due import Due, due
from .retire import CannotRetire, retire

__all__ = ["CannotRetire", "Due", "due", "retire"]
