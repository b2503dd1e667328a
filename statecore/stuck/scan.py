"""Looking for what has been in a state for too long: one bounded query for each machine and state.

Each reads a partial index of live rows in the order of its clock, so that what has ended costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

from django.db.models import QuerySet

from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.indexes import is_live
from ..machines.circuit_breaker import CircuitBreaker

ENTERED = "state_entered_at"


def clock_field(flow: Flow, state: str) -> str:
    """The column a state's deadline runs from."""
    return flow.measured_from.get(state, ENTERED)


def clock_of(entity: Entity) -> datetime:
    return cast(datetime, getattr(entity, clock_field(entity.flow, entity.state)))


def overdue_by(entity: Entity, at: datetime) -> timedelta | None:
    """How long an entity is past the deadline of its state; None when it is not."""
    deadline = entity.flow.deadline(entity.state)
    if deadline is None or at - clock_of(entity) <= deadline:
        return None
    return at - clock_of(entity) - deadline


def is_stuck(entity: Entity, at: datetime) -> bool:
    """Past its deadline, and not merely waiting for what is under way."""
    deadline = entity.flow.deadline(entity.state)
    if deadline is None or overdue_by(entity, at) is None:
        return False
    mine = type(entity).objects.filter(pk=entity.pk)
    return bool(_narrowed(entity.flow, mine, at, at - deadline).exists())


def overdue(flow: Flow, state: str, at: datetime, limit: int) -> list[Any]:
    """Those longest past the deadline of this state, longest first."""
    deadline = flow.deadline(state)
    return [] if deadline is None or flow.is_final(state) else list(late(flow, state, at, deadline)[:limit])


def late(flow: Flow, state: str, at: datetime, deadline: timedelta) -> QuerySet[Any]:
    clock = clock_field(flow, state)
    waiting = flow.model.objects.filter(is_live(flow.final), state=state, **{f"{clock}__lt": at - deadline})
    return _narrowed(flow, waiting, at, at - deadline).order_by(clock)


def _narrowed(flow: Flow, rows: QuerySet[Any], at: datetime, cutoff: datetime) -> QuerySet[Any]:
    if any(field.name == "abandoned" for field in flow.model._meta.concrete_fields):
        rows = rows.filter(abandoned=False)
    narrow = NARROWER.get(flow.entity_type)
    return narrow(rows, at, cutoff) if narrow else rows


def _without_those_cooling_down(rows: QuerySet[Any], at: datetime, cutoff: datetime) -> QuerySet[Any]:
    """A breaker may be set to cool down for longer than its deadline; there is one row for each tool."""
    cooling = [row.pk for row in CircuitBreaker.objects.filter(state="OPEN") if row.cools_down_at() > at]
    return rows.exclude(pk__in=cooling)


def _without_recent_progress(rows: QuerySet[Any], at: datetime, cutoff: datetime) -> QuerySet[Any]:
    """A pipeline job stays in a stage for long; a new checkpoint, or somebody who resumes it, starts its clock anew."""
    return rows.exclude(resumed_at__gte=cutoff).exclude(checkpoints__updated_at__gte=cutoff)


NARROWER: dict[str, Callable[[QuerySet[Any], datetime, datetime], QuerySet[Any]]] = {
    "circuit_breaker": _without_those_cooling_down,
    "pipeline_job": _without_recent_progress,
}
