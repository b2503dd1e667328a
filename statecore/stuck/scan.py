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
from ..kernel.links import alike, once
from ..machines.circuit_breaker import CircuitBreaker
from ..machines.pipeline_job import WORKING
from ..machines.workstream import Workstream

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
    flow, state = entity.flow, entity.state

    def ask() -> set[str]:
        asked = flow.model.objects.filter(pk__in=alike(entity), state=state)
        return set(_narrowed(flow, state, asked, at - deadline, at).values_list("pk", flat=True))

    return entity.pk in once((is_stuck, flow.entity_type, state, at), ask)


def overdue(flow: Flow, state: str, at: datetime, limit: int, beyond: float = 1.0) -> list[Any]:
    """Those longest past the deadline of this state, or past several times that, longest first."""
    deadline = flow.deadline(state)
    return [] if deadline is None or flow.is_final(state) else list(late(flow, state, at, deadline * beyond)[:limit])


def late(flow: Flow, state: str, at: datetime, deadline: timedelta) -> QuerySet[Any]:
    clock = clock_field(flow, state)
    waiting = flow.model.objects.filter(is_live(flow.final), state=state, **{f"{clock}__lt": at - deadline})
    return _narrowed(flow, state, waiting, at - deadline, at).order_by(clock)


def _narrowed(flow: Flow, state: str, rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    if any(field.name == "abandoned" for field in flow.model._meta.concrete_fields):
        rows = rows.filter(abandoned=False)
    narrow = NARROWER.get((flow.entity_type, state))
    return narrow(rows, cutoff, at) if narrow else rows


def _of_workstreams_under_way(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """What belongs to a workstream that has not begun waits for that, which has a deadline of its own."""
    begun = Workstream.objects.filter(is_live(Workstream.flow.final), state__in=("ready", "executing", "validating"))
    return rows.filter(workstream__in=begun)


def _not_cooling_down(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """A breaker may be set to cool down for longer than its deadline; there is one row for each tool."""
    cooling = [row.pk for row in CircuitBreaker.objects.filter(state="OPEN") if row.cools_down_at() > at]
    return rows.exclude(pk__in=cooling)


def _without_recent_progress(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """A pipeline job stays in a stage for long; a new checkpoint, or somebody who resumes it, starts its clock anew."""
    return rows.exclude(resumed_at__gte=cutoff).exclude(checkpoints__updated_at__gte=cutoff)


NARROWER: dict[tuple[str, str], Callable[[QuerySet[Any], datetime, datetime], QuerySet[Any]]] = {
    ("task", "pending"): _of_workstreams_under_way,
    ("circuit_breaker", "OPEN"): _not_cooling_down,
    **{("pipeline_job", str(state)): _without_recent_progress for state in WORKING},
}
