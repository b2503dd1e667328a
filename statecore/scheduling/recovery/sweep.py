"""The recovery sweep, approvals by operators, and the check of the settings for both."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

import structlog
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.db.models import Q

from ...kernel.actors import Actor, Kind
from ...kernel.clock import now
from ...kernel.entity import Entity
from ...kernel.flow import Flow
from ...kernel.refusals import GuardFailed, PermissionDenied, Refusal, Unmet
from ...kernel.registry import flow as flow_of
from ...transitions import rights
from ...transitions.outcome import counting_refusals
from ...transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import jobs, workers
from .definition import APPROVAL, AUTO, Proposal, Recovery, RecoveryContext, find_past_deadline

log = structlog.get_logger(__name__)

BATCH = 200
MAX_LISTED = 5_000  # entities of one recovery that the stuck list reads
# The first recovery that fits an entity is used.
RECOVERIES = (*jobs.RECOVERIES, *workers.RECOVERIES)


def recover_stalled(limit: int = BATCH) -> int:
    """Carry out the automatic recoveries, each for at most `limit` entities; return the number recovered."""
    recovered = 0
    for recovery in RECOVERIES:
        if recovery.mode == AUTO:
            at = now()
            recovered += sum(_recover(recovery, entity_id, at) for entity_id in recovery.find(recovery, at, limit))
    return recovered


def _recover(recovery: Recovery, entity_id: str, at: datetime) -> bool:
    """Recover one entity under its lock; return False if it does not need it any more."""

    def recover(work: UnitOfWork) -> bool:
        entity: Any = work.lock(flow_of(recovery.entity_type).model, entity_id)
        if not recovery.fits(entity, at):
            return False
        recovery.recover(entity, RecoveryContext(at, recovery.action, work))
        return True

    try:
        is_recovered = run_in_transaction(recover)
    except Refusal as refusal:
        # The entity stays on the stuck list; the sweep continues with the others.
        log.warning("recovery_refused", entity_type=recovery.entity_type, entity_id=entity_id, detail=refusal.detail)
        return False
    if is_recovered:
        log.warning("recovered", entity_type=recovery.entity_type, entity_id=entity_id, action=recovery.action)
    return is_recovered


def approve_recovery(model: type[Entity], entity_id: str, *, actor: Actor) -> Entity:
    """Carry out the proposed recovery with the operator's approval; return the entity in its new state.

    Raises PermissionDenied, and GuardFailed if no recovery applies.
    """

    def approve(work: UnitOfWork) -> Entity:
        at, entity = now(), work.lock(model, entity_id)
        recovery = _find_recovery(entity, at)
        if recovery is None:
            unmet = [Unmet("nothing_to_recover", f"{entity} is {entity.state}, and no recovery applies to it")]
            raise GuardFailed("recovery", unmet, **entity.current_facts())
        reason = f"{recovery.action}, approved by {actor.name}"
        recovery.recover(entity, RecoveryContext(at, reason, work, actor.name))
        recovered: Entity = work.lock(model, entity_id)
        return recovered

    with counting_refusals(model.flow.entity_type):
        if actor.kind is not Kind.OPERATOR:
            raise PermissionDenied("only operators can approve a recovery", required=model.flow.permission("operate"))
        rights.require(actor, model.flow, "operate")
        return run_in_transaction(approve)


def propose_recovery(entity: Entity, at: datetime) -> Proposal | None:
    recovery = _find_recovery(entity, at)
    return Proposal(recovery.action, recovery.mode) if recovery else None


def _find_recovery(entity: Entity, at: datetime) -> Recovery | None:
    return next((recovery for recovery in RECOVERIES if recovery.fits(entity, at)), None)


def build_approval_condition(entity_type: str, state: str, at: datetime) -> Q | None:
    """Return the condition that an overdue row of this state needs an approval; None if no row does."""
    conditions = [
        recovery.overdue_condition(at)
        for recovery in RECOVERIES
        if recovery.find is find_past_deadline and recovery.entity_type == entity_type and state in recovery.states
        if recovery.mode == APPROVAL
    ]
    return reduce(or_, conditions) if conditions else None


def find_awaiting_approval(at: datetime) -> Iterator[tuple[Flow, str, list[str]]]:
    """Yield the ids, by machine and state, that need an approval for another reason than a deadline."""
    for recovery in RECOVERIES:
        if recovery.mode == APPROVAL and recovery.find is not find_past_deadline:
            ids = list(recovery.find(recovery, at, MAX_LISTED))
            yield from ((flow_of(recovery.entity_type), state, ids) for state in sorted(recovery.states) if ids)


def settings_name_recoveries(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Reject machines without recoveries in STATECORE_RECOVERY, because no approval would ever be proposed."""
    known = sorted({recovery.entity_type for recovery in RECOVERIES})
    return [
        Error(
            f"STATECORE_RECOVERY names {name!r}, which has no recoveries; it may name {', '.join(known)}",
            id="statecore.E010",
        )
        for name in settings.STATECORE_RECOVERY
        if name not in known
    ]
