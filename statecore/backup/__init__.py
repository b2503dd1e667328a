"""The journal and the tables, out of the database and back into an empty one, verified both ways.

An export holds the events since the last one, in order, and all of Statecore's other tables as of the same moment; a
chain of exports restores a database that verifies, positions and seals included. Not in it: users and their
permissions, answers kept for repeated requests, notices not sent yet, and what lies in files (`transitions.jsonl`,
which continues or is written anew by itself, and `archive/`).
"""

from .drill import Drill, DrillFailed, drill
from .exporting import export
from .restoring import CannotRestore, restore

__all__ = ["CannotRestore", "Drill", "DrillFailed", "drill", "export", "restore"]
