"""The last contact, the lease and the progress of entities that their holders keep by heartbeats."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from statecore.kernel.entity import Entity, HeartbeatEntity
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.scheduling.heartbeats import FUTURE_TOLERANCE

MAX_WORKING = 20  # parts of a run that are listed


class Liveness(NamedTuple):
    entity: HeartbeatEntity
    contact: datetime | None
    lease_ends_at: datetime | None
    is_late: bool  # the lease has ended, and a sweep will take the entity from its holder
    ahead: timedelta | None  # how far the last contact is in the future, by a wrong clock
    percent: int | None
    detail: str
    reported_at: str | None
    unchanged_for: timedelta | None  # if its progress has been the same for too long

    @property
    def has_progress(self) -> bool:
        return self.percent is not None or bool(self.detail)


def read_liveness(entity: Entity, at: datetime) -> Liveness | None:
    """None for a machine without heartbeats, and in states in which none are expected."""
    if not isinstance(entity, HeartbeatEntity) or entity.state not in entity.flow.renewed_in:
        return None
    contact = entity.last_contact()
    lease_ends_at = entity.lease_ends_at(contact) if contact else None
    progress: dict[str, Any] = entity.progress or {}
    fraction = progress.get("fraction")
    return Liveness(
        entity=entity,
        contact=contact,
        lease_ends_at=lease_ends_at,
        is_late=lease_ends_at is not None and lease_ends_at < at,
        ahead=contact - at if contact and contact > at + FUTURE_TOLERANCE else None,
        percent=None if fraction is None else round(100 * fraction),
        detail=progress.get("detail") or "",
        reported_at=progress.get("at"),
        unchanged_for=at - entity.progressed_at() if isinstance(entity, Task) and entity.has_no_progress(at) else None,
    )


def list_working(run: Run, at: datetime) -> tuple[list[Liveness], int]:
    """The tasks and gates of a run that are worked on, the longest first, and how many there are."""
    tasks = Task.objects.filter(run=run, state__in=sorted(Task.flow.renewed_in)).select_related("worker")
    gates = TestGate.objects.filter(run=run, state__in=sorted(TestGate.flow.renewed_in))
    found = [row for rows in (tasks, gates) for row in rows.order_by("state_entered_at", "pk")[:MAX_WORKING]]
    found.sort(key=lambda row: row.state_entered_at)
    shown = [each for row in found[:MAX_WORKING] if (each := read_liveness(row, at))]
    return shown, len(shown) if len(found) < MAX_WORKING else tasks.count() + gates.count()
