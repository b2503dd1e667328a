"""Registration of workers by agents and operators."""

from __future__ import annotations

from typing import Any

from .. import transitions
from ..kernel.actors import THE_SYSTEM, Actor, Kind
from ..kernel.entity import Entity
from ..transitions import Outcome, RequestKey
from ..transitions.outcome import counting_refusals
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction


def register(model: type[Entity], *, actor: Actor, request: RequestKey | None = None, **fields: Any) -> Outcome:
    """Create a worker that is ready to claim. The outcome has its creation, and the registration in `caused`."""

    def create_and_register(work: UnitOfWork) -> Outcome:
        created = transitions.create(model, actor=actor, within=work, **fields)
        # Operators may create workers but not fire `registration_completed`.
        registrar = actor if actor.kind is Kind.AGENT else THE_SYSTEM
        entity_id = created.entity.pk if created.entity else ""
        ready = transitions.transition(model, entity_id, "registration_completed", actor=registrar, within=work)
        caused = (*created.caused, *([ready.entry] if ready.entry else ()), *ready.caused)
        return Outcome(ready.entity, created.entry, caused)

    with counting_refusals(model.flow.entity_type):
        return run_in_transaction(create_and_register, request=request, actor=actor)
