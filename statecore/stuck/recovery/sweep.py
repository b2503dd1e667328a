"""Carrying recoveries out: for all that may be, and for the one that was approved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import structlog

from ...door import rights, rows
from ...door.perform import perform
from ...door.refused import counted
from ...kernel.actors import Actor, Kind
from ...kernel.clock import now
from ...kernel.entity import Entity
from ...kernel.flow import Flow
from ...kernel.refusals import GuardFailed, PermissionDenied, Refusal, Unmet
from ...kernel.registry import flow as flow_of
from .plan import APPROVAL, AUTO, Order, Proposal, Recovery, past_the_deadline, recoveries

log = structlog.get_logger(__name__)

BATCH = 200
MOST = 5_000  # of one recovery on the list: as many as are looked at


def recover_stalled(limit: int = BATCH) -> int:
    """Do what may be done without asking, for at most so many of each kind; how many were recovered."""
    return sum(_recovered(recovery, limit) for recovery in recoveries if recovery.mode == AUTO)


def approve_recovery(model: type[Entity], entity_id: str, *, actor: Actor) -> Entity:
    """Carry out now what is proposed for this entity, in the operator's name; the entity as it is afterwards."""

    def step() -> Entity:
        at, entity = now(), rows.lock(model, entity_id)
        recovery = _fitting(entity, at)
        if recovery is None:
            unmet = [Unmet("nothing_to_recover", f"{entity} is {entity.state}, and no recovery is open for it")]
            raise GuardFailed("recovery", unmet, **entity.standing())
        recovery.carry_out(entity, Order(at, f"{recovery.action}, approved by {actor.name}", actor.name))
        return rows.lock(model, entity_id)

    with counted(model.flow.entity_type):
        if actor.kind is not Kind.OPERATOR:
            raise PermissionDenied("only an operator approves", required=model.flow.permission("operate"))
        rights.require(actor, model.flow, "operate")
        return perform(step)


def proposal_for(entity: Entity, at: datetime) -> Proposal | None:
    """What the system would do about a stuck entity; None where it knows nothing."""
    recovery = _fitting(entity, at)
    return Proposal(recovery.action, recovery.mode) if recovery else None


def awaiting_approval(at: datetime, limit: int) -> Iterator[Entity]:
    """Whoever a recovery is for that an operator has to approve, past a deadline or not."""
    for recovery in recoveries:
        if recovery.mode == APPROVAL:
            ids = list(recovery.due(recovery, at, limit))
            found = flow_of(recovery.entity_type).model.objects.filter(pk__in=ids)
            yield from (entity for entity in found if recovery.fits(entity, at))


def found_otherwise(at: datetime) -> Iterator[tuple[Flow, str, list[str]]]:
    """Whoever waits for an approval by something else than a deadline: the ids for each machine and state."""
    for recovery in recoveries:
        if recovery.mode == APPROVAL and recovery.due is not past_the_deadline:
            ids = list(recovery.due(recovery, at, MOST))
            yield from ((flow_of(recovery.entity_type), state, ids) for state in sorted(recovery.states) if ids)


def _fitting(entity: Entity, at: datetime) -> Recovery | None:
    return next((recovery for recovery in recoveries if recovery.fits(entity, at)), None)


def _recovered(recovery: Recovery, limit: int) -> int:
    at = now()
    return sum(_recover(recovery, entity_id, at) for entity_id in recovery.due(recovery, at, limit))


def _recover(recovery: Recovery, entity_id: str, at: datetime) -> bool:
    """One entity, under its lock: whoever came first, a sweep or the entity itself, leaves nothing to do."""

    def step() -> bool:
        entity: Any = rows.lock(flow_of(recovery.entity_type).model, entity_id)
        if not recovery.fits(entity, at):
            return False
        recovery.carry_out(entity, Order(at, recovery.action))
        return True

    try:
        done = perform(step)
    except Refusal as refusal:
        # The others are not made to wait for one that cannot be helped; it stays on the list of what is stuck.
        log.warning("recovery_refused", entity_type=recovery.entity_type, entity_id=entity_id, detail=refusal.detail)
        return False
    if done:
        log.warning("recovered", entity_type=recovery.entity_type, entity_id=entity_id, action=recovery.action)
    return done
