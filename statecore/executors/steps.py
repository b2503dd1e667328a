"""Writing down the steps of a compensation, which stay as they are written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from ..door.perform import perform
from ..door.work import current
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.latch import opened
from ..records.compensation_step import Action, CompensationStep
from .output import LIMIT, clipped


def note(
    entry_id: str,
    action: Action,
    actor: Actor,
    *,
    started_at: datetime | None = None,
    execution: str = "",
    output: str = "",
    error: str = "",
    details: dict[str, Any] | None = None,
) -> CompensationStep:
    """A step that has ended; one that says what went wrong was not ok."""

    def step() -> CompensationStep:
        with opened(current().connection):
            return CompensationStep.objects.create(
                entry_id=entry_id,
                execution=execution,
                action=action,
                ok=not error,
                output=clipped(output, LIMIT),
                error=clipped(error, LIMIT),
                details=details or {},
                actor=actor.name,
                started_at=started_at or now(),
                ended_at=now(),
            )

    return perform(step)


def of(entry_id: str) -> QuerySet[CompensationStep]:
    return CompensationStep.objects.filter(entry=entry_id).order_by("pk")
