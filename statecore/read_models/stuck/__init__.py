"""Entities that are stuck: the list, its totals, and the cause of each."""

from ...scheduling.recovery import approve_recovery, recover_stalled
from .explain import Explanation, explain, explain_entity
from .listing import Item, Kind, Page, Totals, count_stuck, list_decisions, list_stuck, read_page
from .sources import ListCursor

__all__ = [
    "Explanation", "Item", "Kind", "ListCursor", "Page", "Totals", "approve_recovery", "count_stuck", "explain",
    "explain_entity", "list_decisions", "list_stuck", "read_page", "recover_stalled",
]  # fmt: skip
