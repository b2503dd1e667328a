"""Consumers of numbered events: one module per sink, each with a deliver() method."""

from ...kernel import extensions
from .alerts import Alerts
from .counters import Counters
from .journal_file import JournalFile
from .live import Live
from .metrics import Metrics
from .sink import Sink
from .tree import Tree
from .trends import Trends
from .workstream_archive import WorkstreamArchive


def create_sinks() -> list[Sink]:
    """Returns all sinks in the order of delivery: agents wait for events; alerts read counts and roll-ups."""
    ours = [Live(), Tree(), JournalFile(), Counters(), Trends(), Alerts(), WorkstreamArchive(), Metrics()]
    return [*ours, *(create() for create in extensions.sinks)]


__all__ = ["Sink", "create_sinks"]
