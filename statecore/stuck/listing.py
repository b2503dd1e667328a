"""The list of what is stuck, longest overdue first, each with why and what can be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from heapq import nlargest
from typing import Any, NamedTuple

from ..kernel import registry
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from . import scan
from .decisions import undecided
from .explain import why
from .recovery import APPROVAL, Proposal, proposal_for

USUAL_LIMIT = 100


class Kind(StrEnum):
    OVERDUE = "overdue"
    NEEDS_APPROVAL = "needs approval"
    NEEDS_DECISION = "needs a decision"


@dataclass(frozen=True, slots=True)
class Item:
    entity: Entity
    kind: Kind
    since: datetime
    deadline: timedelta | None
    overdue: timedelta
    why: str
    recovery: Proposal

    def as_dict(self) -> dict[str, Any]:
        return {
            "entity_type": self.entity.flow.entity_type,
            "id": self.entity.pk,
            "state": self.entity.state,
            "kind": self.kind.value,
            "since": rfc3339(self.since),
            "deadline_seconds": self.deadline.total_seconds() if self.deadline else None,
            "overdue_seconds": self.overdue.total_seconds(),
            "why": self.why,
            "recovery": self.recovery.as_dict(),
        }


class _Found(NamedTuple):
    overdue: timedelta
    since: datetime
    entity: Entity
    is_decision: bool


def stuck(limit: int = USUAL_LIMIT, *, entity_type: str | None = None) -> list[Item]:
    """At most so many of all that are past a deadline or need a decision."""
    at = now()
    found = {(one.entity.flow.entity_type, one.entity.pk): one for one in _overdue(at, limit, entity_type)}
    # Needing a decision says more than being late: it comes second and wins.
    found |= {(one.entity.flow.entity_type, one.entity.pk): one for one in _undecided(at, limit, entity_type)}
    return [_item(one, at) for one in nlargest(limit, found.values(), key=lambda one: one.overdue)]


def _overdue(at: datetime, limit: int, entity_type: str | None) -> list[_Found]:
    flows = registry.flows() if entity_type is None else (registry.flow(entity_type),)
    rows = [row for flow in flows for state in flow.states for row in scan.overdue(flow, state, at, limit)]
    return [_Found(scan.overdue_by(row, at) or timedelta(), scan.clock_of(row), row, is_decision=False) for row in rows]


def _undecided(at: datetime, limit: int, entity_type: str | None) -> list[_Found]:
    return [
        _Found(max(at - since, timedelta()), since, entity, is_decision=True)
        for entity, since in undecided(limit)
        if entity_type in (None, entity.flow.entity_type)
    ]


def _item(found: _Found, at: datetime) -> Item:
    entity, proposal = found.entity, proposal_for(found.entity, at)
    kind = Kind.NEEDS_APPROVAL if proposal.mode == APPROVAL else Kind.OVERDUE
    deadline = None if found.is_decision else entity.flow.deadline(entity.state)
    return Item(
        entity,
        Kind.NEEDS_DECISION if found.is_decision else kind,
        found.since,
        deadline,
        found.overdue,
        why(entity, at),
        proposal,
    )
