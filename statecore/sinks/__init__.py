"""Where the numbered events go: one file per sink, one deliver() each."""

from .alerts import Alerts
from .archive import Archive
from .counters import Counters
from .journal_file import JournalFile
from .live import Live
from .metrics import Metrics
from .seals import Seals
from .sink import Sink


def all_sinks() -> list[Sink]:
    """In this order: the alerts read what the counters have counted."""
    return [JournalFile(), Counters(), Live(), Alerts(), Seals(), Archive(), Metrics()]


__all__ = ["Sink", "all_sinks"]
