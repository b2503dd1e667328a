"""Firing a trigger: the ordinary way to change a state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.conf import settings

from ..journal import Entry
from ..kernel import spans
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.transition import Facts
from . import approvals, optimistic
from .change import check_version, event_spec, fire, record, validate_reason_and_metadata
from .idempotency import RequestKey
from .outcome import Outcome, counting_refusals
from .unit_of_work import SPAN, UnitOfWork, run_in_transaction


def transition(
    model: type[Entity],
    entity_id: str,
    trigger: str,
    *,
    actor: Actor,
    params: Mapping[str, Any] | None = None,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
    cause: Entry | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> Outcome:
    """Load, check, apply, record, react, and write everything in one transaction; a refusal changes nothing."""

    def change(work: UnitOfWork, loaded: Entity | None = None) -> Outcome:
        entity = loaded or work.lock(model, entity_id)
        facts = Facts(max(now(), entity.updated_at), actor, params or {}, reason)
        check_version(entity, expected_version)
        before = entity.__dict__.copy()
        fired = fire(entity, trigger, facts)
        if fired is None:
            return Outcome(entity, None)
        recorded = record(entity, before, event_spec(fired, facts, metadata or {}, cause))
        work.stage([recorded])
        caused = work.react([recorded])
        if settings.STATECORE_SECOND_PERSON:
            approvals.check_steps(work, actor, (recorded.entry, *caused))
        return Outcome(work.latest(entity), recorded.entry, caused)

    with counting_refusals(model.flow.entity_type):
        validate_reason_and_metadata(reason, metadata or {}, params or {})
        if request is None and within is None and not dry_run:
            attempt = partial(optimistic.attempt, model, entity_id, trigger, change)
            outcome = attempt() if spans.tracer is None else spans.run(SPAN, attempt)
            if outcome is not None:
                return outcome
        return run_in_transaction(change, within=within, dry_run=dry_run, request=request, actor=actor)
