"""Where the numbered events go: one file per sink, one deliver() each."""

from .journal_file import JournalFile
from .sink import Sink


def all_sinks() -> list[Sink]:
    return [JournalFile()]


__all__ = ["Sink", "all_sinks"]
