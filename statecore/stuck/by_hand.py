"""What is left to an operator where the system knows no recovery."""

from __future__ import annotations

from datetime import datetime

from ..kernel.actors import OPERATOR as AN_OPERATOR
from ..kernel.entity import Entity
from . import words
from .chain import Link
from .judging import judged_moves
from .recovery import OPERATOR, Proposal


def by_hand(entity: Entity, links: list[Link], at: datetime) -> Proposal:
    """Retry what has ended at the root of it, fire what is open to an operator, or force the state."""
    root = links[-1].entity
    ways = [f"retry {words.named(root)}"] if root.flow.is_final(root.state) else []
    open_to_them = (move for move in judged_moves(entity, at, by=AN_OPERATOR) if move.allowed)
    ways += dict.fromkeys(move.trigger for move in open_to_them if not move.needs)
    return Proposal(" or ".join([*ways, "override"]), OPERATOR)
