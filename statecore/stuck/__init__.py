"""What is stuck and why, and what the system may do about it."""

from .explain import Explanation, explain
from .listing import Item, Kind, stuck
from .recovery import approve_recovery, recover_stalled

__all__ = ["Explanation", "Item", "Kind", "approve_recovery", "explain", "recover_stalled", "stuck"]
