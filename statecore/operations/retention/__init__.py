"""Moves old events from the database to archive files that can still be verified.

A range of positions is written to a file, read back and verified. Then one transaction records the range, keeps an
anchor for each entity, and deletes the events. If the process is killed, the range is either archived or unchanged.
"""

from .archive import ArchivingFailed, archive_events
from .selection import DueEvents, find_due_events

__all__ = ["ArchivingFailed", "DueEvents", "archive_events", "find_due_events"]
