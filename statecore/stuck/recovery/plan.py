"""A recovery: for whom it is, whether it still applies, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from ... import door
from ...kernel import registry
from ...kernel.actors import THE_SYSTEM
from ...kernel.entity import Entity
from .. import scan

AUTO, APPROVAL, OPERATOR = "auto", "approval", "operator"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is open for a stuck entity, and who sets it going: the system, an approval, or an operator's own hand."""

    action: str
    mode: str

    def as_dict(self) -> dict[str, str]:
        return {"action": self.action, "mode": self.mode}


@dataclass(frozen=True, slots=True)
class Order:
    """On whose behalf a recovery is carried out, and when; every event of it carries this."""

    at: datetime
    reason: str
    approved_by: str | None = None

    def fire(self, entity: Entity, trigger: str, **params: Any) -> Any:
        told = {"recovery": True, "approved_by": self.approved_by}
        outcome = door.transition(
            type(entity), entity.pk, trigger, actor=THE_SYSTEM, params=params, reason=self.reason, metadata=told
        )
        return outcome.entity


@dataclass(frozen=True, slots=True)
class Recovery:
    """`due` finds its entities, at most so many; `applies` is asked again once the row is locked."""

    entity_type: str
    states: frozenset[str]
    action: str
    carry_out: Callable[[Any, Order], object]
    due: Callable[[Recovery, datetime, int], Iterable[str]]
    applies: Callable[[Any, datetime], bool]
    # Nobody is asked about what was promised before, such as the next try after a delay.
    asks_nobody: bool = False

    def fits(self, entity: Entity, at: datetime) -> bool:
        return entity.flow.entity_type == self.entity_type and entity.state in self.states and self.applies(entity, at)

    @property
    def mode(self) -> str:
        mode: str = settings.STATECORE_RECOVERY.get(self.entity_type, AUTO)
        return AUTO if self.asks_nobody else mode


recoveries: list[Recovery] = []


def past_the_deadline(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    flow = registry.flow(recovery.entity_type)
    return [row.pk for state in sorted(recovery.states) for row in scan.overdue(flow, state, at, limit)]


def when_overdue(
    entity_type: str, states: Iterable[str], action: str, carry_out: Callable[[Any, Order], object]
) -> Recovery:
    """The usual recovery: for whoever is past the deadline of its state."""
    names = frozenset(map(str, states))
    return Recovery(entity_type, names, action, carry_out, past_the_deadline, scan.is_stuck)
