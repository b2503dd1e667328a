"""The definition of a recovery: which entities it concerns, when it applies, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q

from ... import transitions
from ...kernel import registry
from ...kernel.actors import THE_SYSTEM
from ...kernel.entity import Entity
from ...transitions.unit_of_work import UnitOfWork
from .. import deadlines

AUTO, APPROVAL, OPERATOR = "auto", "approval", "operator"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed action for a stuck entity; `mode` is automatic, after an approval, or manual by an operator."""

    action: str
    mode: str
    # For manual actions: the open triggers, and the final entity that a retry would replace.
    triggers: tuple[str, ...] = ()
    retry: Entity | None = None

    def as_dict(self) -> dict[str, str]:
        return {"action": self.action, "mode": self.mode}


@dataclass(frozen=True, slots=True)
class RecoveryContext:
    """The time, reason and approver of a recovery in progress, which `fire` records with each event."""

    at: datetime
    reason: str
    work: UnitOfWork
    approved_by: str | None = None

    def fire(self, entity: Entity, trigger: str, **params: Any) -> Any:
        outcome = transitions.transition(
            type(entity),
            entity.pk,
            trigger,
            actor=THE_SYSTEM,
            params=params,
            reason=self.reason,
            metadata={"recovery": True, "approved_by": self.approved_by},
            within=self.work,
        )
        return outcome.entity


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do with stuck entities of a machine.

    `find` returns the ids of some candidates. `applies` decides about each of them, under the lock of its row, and
    `recover` carries out the action.
    """

    entity_type: str
    states: frozenset[str]
    action: str
    recover: Callable[[Any, RecoveryContext], object]
    find: Callable[[Recovery, datetime, int], Iterable[str]]
    applies: Callable[[Any, datetime], bool]
    # For actions that were scheduled earlier and need no approval, such as the next attempt after a delay.
    always_automatic: bool = False
    # What `applies` demands besides being overdue, as a condition on rows.
    overdue_condition: Callable[[datetime], Q] = lambda at: Q()

    def fits(self, entity: Entity, at: datetime) -> bool:
        return entity.flow.entity_type == self.entity_type and entity.state in self.states and self.applies(entity, at)

    @property
    def mode(self) -> str:
        mode: str = settings.STATECORE_RECOVERY.get(self.entity_type, AUTO)
        return AUTO if self.always_automatic else mode


def find_past_deadline(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    flow = registry.flow(recovery.entity_type)
    return [row.pk for state in sorted(recovery.states) for row in deadlines.find_overdue(flow, state, at, limit)]


def when_overdue(
    entity_type: str, states: Iterable[str], action: str, recover: Callable[[Any, RecoveryContext], object]
) -> Recovery:
    """Define a recovery for entities past the deadline of their state."""
    names = frozenset(map(str, states))
    return Recovery(entity_type, names, action, recover, find_past_deadline, deadlines.is_stuck)
