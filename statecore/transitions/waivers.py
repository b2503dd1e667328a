"""Waivers: an operator decides that everything which waits for a gate treats it as passed; the gate keeps its state.

A waiver is an event of the gate with name, reason and category, and a policy can protect it like a forced state. It
ends when it expires: what still waits for the gate is blocked again, what has ended by then stays.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from ..journal import EventKind
from ..kernel.actors import THE_SYSTEM, Actor, Kind
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from ..kernel.refusals import ApprovalRequired, GuardFailed, Invalid, PermissionDenied, Unmet
from ..kernel.transition import Facts, Severity
from ..storage.keyset_scan import next_by_entry
from . import rights
from .change import Change, EventSpec, check_not_retried, check_version, record_edit, validate_reason_and_metadata
from .idempotency import RequestKey
from .outcome import Outcome, counting_refusals
from .override import (
    WAIVED,
    Forcing,
    check_policies,
    note_forced_step,
    reason_errors,
    recording_refusals,
    request_approval,
)
from .unit_of_work import UnitOfWork, run_in_transaction

EXPIRED = "waiver_expired"
TRIGGERS = {WAIVED, EXPIRED}
EXPIRES_AT = "expires_at"
BATCH = 500


def waive(
    model: type[Entity],
    entity_id: str,
    *,
    actor: Actor,
    reason: str,
    category: str,
    expires_at: datetime | None = None,
    expected_version: int | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> Outcome:
    """Waive one gate, or replace its waiver; a dry run does it with all its reactions and rolls it back.

    If a policy protects the waiver or a state that it leads to, it is stored as a request for approval instead.
    """
    metadata = {} if expires_at is None else {EXPIRES_AT: rfc3339(expires_at)}
    forcing = Forcing(WAIVED, actor, reason, category, metadata)

    def waive_or_request(work: UnitOfWork) -> Outcome:
        entity = work.lock(model, entity_id)
        check_version(entity, expected_version)
        if dry_run:
            return waive_entity(work, entity, forcing, is_preview=True)
        bound = {"entity_id": entity_id, "from_state": entity.state, "version": entity.version}
        try:
            return run_in_transaction(lambda _: waive_entity(work, entity, forcing), within=work)
        except ApprovalRequired as required:
            return request_approval(model, forcing, bound, required.facts["policies"])

    requested = {"waiver": True, "reason": reason, "category": category, "dry_run": dry_run, **metadata}
    recording = recording_refusals(model, entity_id, actor, requested, is_preview=dry_run)
    with counting_refusals(model.flow.entity_type), recording:
        check_waiver(model, actor, reason, category, expires_at)
        validate_reason_and_metadata(reason, {})
        return run_in_transaction(waive_or_request, within=within, dry_run=dry_run, request=request, actor=actor)


def waive_entity(work: UnitOfWork, entity: Any, forcing: Forcing, *, is_preview: bool = False) -> Outcome:
    """Waive a locked gate and run the reactions; raises ApprovalRequired if a policy demands an approver."""
    actor, approver = forcing.actor, forcing.approver
    _check_waivable(entity)
    before = entity.__dict__.copy()
    facts = Facts(max(now(), entity.updated_at), actor, {}, forcing.reason)
    entity.waived = True
    entity.waiver = {
        "by": actor.name,
        "reason": forcing.reason,
        "category": str(forcing.category),
        "at": rfc3339(facts.at),
        EXPIRES_AT: forcing.metadata.get(EXPIRES_AT),
    }
    details = {"category": str(forcing.category), "approver": approver.name if approver else None}
    metadata = {EXPIRES_AT: None, **forcing.metadata}
    spec = EventSpec(EventKind.EDITED, WAIVED, Severity.WARNING, facts, metadata, details=details)
    change, caused = _write(work, entity, before, spec)
    if not is_preview:
        check_policies(work, [change.entry, *caused], approver)
        note_forced_step(actor, entity, change.entry)
    return Outcome(work.latest(entity), change.entry, caused)


def expire(model: type[Entity]) -> int:
    """End the waivers that have expired; return how many. Bounded and repeatable."""
    waived = next_by_entry(model.objects.filter(waived=True), _places, model, BATCH)
    found = model.objects.filter(pk__in=waived, waiver__expires_at__lte=rfc3339(now())).values_list("pk", flat=True)
    return sum(run_in_transaction(partial(_expire_one, model, pk)) for pk in list(found))


_places: dict[Any, Any] = {}


def _expire_one(model: type[Entity], entity_id: str, work: UnitOfWork) -> bool:
    entity, at = work.lock(model, entity_id), now()
    until = (entity.waiver or {}).get(EXPIRES_AT)
    if not entity.waived or until is None or until > rfc3339(at):
        return False
    before = entity.__dict__.copy()
    entity.waived = False
    facts = Facts(max(at, entity.updated_at), THE_SYSTEM, {}, f"the waiver by {entity.waiver['by']} expired")
    _write(work, entity, before, EventSpec(EventKind.EDITED, EXPIRED, Severity.WARNING, facts, {}))
    return True


def _write(work: UnitOfWork, entity: Entity, before: dict[str, Any], spec: EventSpec) -> tuple[Change, Any]:
    change = record_edit(entity, before, spec)
    work.stage([change])
    work.flush()
    return change, work.react([change])


def check_waiver(
    model: type[Entity], actor: Actor, reason: str, category: str, expires_at: datetime | None = None
) -> None:
    """Refuse what every gate would refuse."""
    if actor.kind is not Kind.OPERATOR:
        raise PermissionDenied("only an operator waives a gate", required=model.flow.permission("waive"))
    rights.require(actor, model.flow, "waive")
    errors = reason_errors(reason, category)
    if expires_at is not None and expires_at <= now():
        errors[EXPIRES_AT] = ["must be in the future."]
    if errors:
        raise Invalid(errors)


def _check_waivable(entity: Any) -> None:
    check_not_retried(entity)
    unmet = []
    if entity.state in entity.flow.done:
        unmet.append(Unmet("gate_passed", f"{entity} has passed"))
    if entity.abandoned or (entity.workstream and entity.workstream.has_ended()):
        ended = f"workstream {entity.workstream_id} has ended"
        unmet.append(Unmet("workstream_final", ended, entity.workstream_id, "workstream"))
    if unmet:
        raise GuardFailed(WAIVED, unmet, **entity.current_facts())
