"""What can be said of any entity, read off the declaration of its machine."""

from __future__ import annotations

from datetime import datetime

from ...kernel.entity import Entity
from ...kernel.flow import Rest
from .. import words
from ..judging import judged_moves
from ..sight import Sight


def generic(entity: Entity, at: datetime, sight: Sight = None) -> str:
    timing = entity.flow.timing.get(entity.state)
    if isinstance(timing, Rest):
        return words.standing(entity, at, timing.because)
    moves = judged_moves(entity, at, sight=sight)
    open_ones = [move for move in moves if move.allowed]
    if open_ones:
        return words.standing(entity, at, f"it takes {' or '.join(dict.fromkeys(move.trigger for move in open_ones))}")
    unmet = [reason.detail for move in moves for reason in move.unmet]
    return words.standing(entity, at, "; ".join(dict.fromkeys(unmet)))
