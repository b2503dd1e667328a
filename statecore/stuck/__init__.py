"""What is stuck and why, and what the system may do about it."""

from .explain import Explanation, explain
from .listing import Item, Kind, Page, page, stuck
from .recovery import approve_recovery, recover_stalled
from .sources import Place

__all__ = [
    "Explanation",
    "Item",
    "Kind",
    "Page",
    "Place",
    "approve_recovery",
    "explain",
    "page",
    "recover_stalled",
    "stuck",
]
