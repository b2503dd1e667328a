"""Entities that are stuck: the list, its totals, and the cause of each."""

from ...scheduling.recovery import approve_recovery, recover_stalled
from .explain import Explanation, explain, explain_entity
from .listing import Item, Page, Totals, count_stuck, list_decisions, list_stuck, make_items, read_page
from .offers import Action, Offer, list_offers, serialize_item
from .plan_causes import name_missing_worker
from .sources import Kind, ListCursor, StuckEntity, select_hopelessly_blocked, select_without_progress

__all__ = [
    "Action", "Explanation", "Item", "Kind", "ListCursor", "Offer", "Page", "StuckEntity", "Totals", "approve_recovery",
    "count_stuck", "explain", "explain_entity", "list_decisions", "list_offers", "list_stuck", "make_items",
    "name_missing_worker", "read_page", "recover_stalled", "select_hopelessly_blocked", "select_without_progress",
    "serialize_item",
]  # fmt: skip
