"""The current numbers of all machines, read from the counters instead of the tables."""

from .alerts import list_alerts
from .merge_patch import apply_merge_patch, make_merge_patch
from .stats import Snapshot, count_by_state, get_stats, serialize_snapshot, take_snapshot

__all__ = [
    "Snapshot", "apply_merge_patch", "count_by_state", "get_stats", "list_alerts", "make_merge_patch",
    "serialize_snapshot", "take_snapshot",
]  # fmt: skip
