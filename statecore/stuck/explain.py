"""Why an entity is where it is: each move from here with what is in its way, and the chain to the root cause."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..kernel.actors import Actor
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from ..kernel.refusals import NotFound
from ..kernel.ulid import is_valid_id
from . import chain, scan, words
from .judging import Judged, judged_moves
from .sight import Sight


@dataclass(frozen=True, slots=True)
class Explanation:
    entity: Entity
    sentence: str
    moves: list[Judged]
    waiting_on: list[chain.Link]
    overdue: timedelta | None

    def as_dict(self) -> dict[str, Any]:
        flow, entity = self.entity.flow, self.entity
        deadline = flow.deadline(entity.state)
        return {
            "entity_type": flow.entity_type,
            "id": entity.pk,
            "state": entity.state,
            "since": rfc3339(scan.clock_of(entity)),
            "deadline_seconds": deadline.total_seconds() if deadline else None,
            "overdue_seconds": self.overdue.total_seconds() if self.overdue else None,
            "sentence": self.sentence,
            "moves": [move.as_dict() for move in self.moves],
            "waiting_on": [link.as_dict() for link in self.waiting_on],
        }


def explain(model: type[Entity], entity_id: str, *, actor: Actor | None = None, sight: Sight = None) -> Explanation:
    """Reads only; with an actor, a move that this actor may not fire is not allowed; with a sight, no more is told."""
    found = model.objects.filter(pk=entity_id).first() if is_valid_id(entity_id) else None
    if found is None:
        raise NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    return explained(found, now(), actor, sight)


def explained(entity: Entity, at: datetime, actor: Actor | None = None, sight: Sight = None) -> Explanation:
    moves, overdue = judged_moves(entity, at, actor, sight), scan.overdue_by(entity, at)
    if entity.flow.is_final(entity.state):
        return Explanation(entity, words.ended(entity, at), moves, [], overdue)
    links = chain.chain_of(entity, at, sight)
    return Explanation(entity, chain.sentence(links), moves, links, overdue)
