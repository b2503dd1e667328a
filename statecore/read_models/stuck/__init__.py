"""Entities that are stuck: the list, its totals, and the cause of each."""

from ...scheduling.recovery import approve_recovery, recover_stalled
from .explain import Explanation, explain, explain_entity
from .listing import Item, Kind, Page, Totals, count_stuck, list_decisions, list_stuck, read_page
from .offers import Action, Offer, list_offers, serialize_item
from .sources import ListCursor, select_without_progress

__all__ = [
    "Action", "Explanation", "Item", "Kind", "ListCursor", "Offer", "Page", "Totals", "approve_recovery", "count_stuck",
    "explain", "explain_entity", "list_decisions", "list_offers", "list_stuck", "read_page", "recover_stalled",
    "select_without_progress", "serialize_item",
]  # fmt: skip
