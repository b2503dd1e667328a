"""Registration: a worker that an agent brings is ready to claim at once."""

from __future__ import annotations

from typing import Any

from .. import door
from ..door import Outcome, RequestKey
from ..door.idempotency import answer_once
from ..door.refused import counted
from ..door.work import perform
from ..kernel.actors import THE_SYSTEM, Actor, Kind
from ..kernel.entity import Entity


def register(model: type[Entity], *, actor: Actor, request: RequestKey | None = None, **fields: Any) -> Outcome:
    """Create and register in one transaction; the event told is the creation, the registration follows from it."""

    def step() -> Outcome:
        created = door.create(model, actor=actor, **fields)
        # An operator may bring a worker too; that it is ready is for the system to say then.
        mover = actor if actor.kind is Kind.AGENT else THE_SYSTEM
        entity_id = created.entity.pk if created.entity else ""
        ready = door.transition(model, entity_id, "registration_completed", actor=mover)
        followed = (*created.caused, *([ready.entry] if ready.entry else ()), *ready.caused)
        return Outcome(ready.entity, created.entry, followed)

    with counted(model.flow.entity_type):
        return perform(lambda: answer_once(request, actor, step))
