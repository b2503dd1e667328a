"""The log of an agent job: appending to it, folding it, and proving that column and log agree."""

from .append import append, events_of, mirror
from .proof import disagreements, violations

__all__ = ["append", "disagreements", "events_of", "mirror", "violations"]
