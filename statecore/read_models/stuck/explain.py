"""Explains an entity's state: each transition with its unmet conditions, and the chain of waits to the root cause."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ...kernel import phrasing
from ...kernel.actors import Actor
from ...kernel.clock import now, rfc3339
from ...kernel.entity import Entity
from ...kernel.ids import is_valid_id
from ...kernel.refusals import NotFound
from ...scheduling import deadlines
from ...scheduling.expectations import expected_duration
from . import chain
from .transition_checks import TransitionCheck, check_transitions
from .visibility import VisibleMachines


@dataclass(frozen=True, slots=True)
class Explanation:
    entity: Entity
    sentence: str
    transitions: list[TransitionCheck]
    waiting_on: list[chain.Link]
    overdue: timedelta | None

    def as_dict(self) -> dict[str, Any]:
        flow, entity = self.entity.flow, self.entity
        deadline = expected_duration(flow, entity.state)
        transitions = [check.as_dict() for check in self.transitions]
        return {
            "entity_type": flow.entity_type,
            "id": entity.pk,
            "state": entity.state,
            "since": rfc3339(deadlines.get_clock_start(entity)),
            "deadline_seconds": deadline.total_seconds() if deadline else None,
            "overdue_seconds": self.overdue.total_seconds() if self.overdue else None,
            "sentence": self.sentence,
            "transitions": transitions,
            "moves": transitions,  # deprecated
            "waiting_on": [link.as_dict() for link in self.waiting_on],
        }


def explain(
    model: type[Entity], entity_id: str, *, actor: Actor | None = None, visible: VisibleMachines = None
) -> Explanation:
    """Explains the state of an entity; raises NotFound if it does not exist.

    With an actor, transitions that it may not fire are not allowed. Machines that are not visible are not named.
    """
    found = model.objects.filter(pk=entity_id).first() if is_valid_id(entity_id) else None
    if found is None:
        raise NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    return explain_entity(found, now(), actor, visible)


def explain_entity(
    entity: Entity, at: datetime, actor: Actor | None = None, visible: VisibleMachines = None
) -> Explanation:
    checks, overdue = check_transitions(entity, at, actor, visible), deadlines.compute_overdue(entity, at)
    if entity.flow.is_final(entity.state):
        return Explanation(entity, phrasing.describe_end(entity, at), checks, [], overdue)
    links = chain.find_chain(entity, at, visible)
    return Explanation(entity, chain.format_sentence(links), checks, links, overdue)
