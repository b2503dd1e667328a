"""Overrides: an operator forces a state, bypassing guards but not constraints, final states or the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import TextChoices

from ..journal import OVERRIDDEN, Entry, EventKind
from ..kernel.actors import Actor, Kind
from ..kernel.clock import format_utc, now
from ..kernel.entity import Entity
from ..kernel.fields import StateField
from ..kernel.refusals import (
    AlreadyInState,
    AlreadyRequested,
    ApprovalRequired,
    GuardFailed,
    Invalid,
    PermissionDenied,
    Refusal,
    TerminalState,
    Unmet,
)
from ..kernel.second_person import Policy, policies_for
from ..kernel.transition import Facts, Severity, Transition
from ..notifications import Urgency
from ..records import audit_note
from ..records.alert import store_notices
from ..records.approval import Status, add_forced_step, with_status
from ..records.approval import request as store_request
from . import rights
from .change import EventSpec, check_not_retried, check_version, record, validate_reason_and_metadata
from .idempotency import RequestKey
from .outcome import Outcome, counting_refusals
from .unit_of_work import RowsLocked, UnitOfWork, run_in_transaction

log = structlog.get_logger(__name__)

SHORTEST_REASON = 10
CLEAR_RETRY_COUNT = "clear_retry_count"
WAIVED = "waived"  # the trigger of a waiver (waivers.py), which policies and approvals name like a state


class Category(TextChoices):
    """Why an operator forces a state."""

    STUCK = "stuck"
    CRASHED_WORKER = "crashed_worker"
    INFRASTRUCTURE = "infrastructure"
    WRONG_DATA = "wrong_data"
    EMERGENCY = "emergency"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Forcing:
    """What is forced, by whom, why, and who approved it."""

    to_state: str
    actor: Actor
    reason: str
    category: str
    metadata: Mapping[str, Any]
    approver: Actor | None = None

    @property
    def clears_retry_count(self) -> bool:
        """Part of the metadata, so that a request for approval and the event have it too."""
        return self.metadata.get(CLEAR_RETRY_COUNT) is True


class Requested(Outcome):
    """The outcome of an override that waits for a second person; nothing has changed yet."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def override(
    model: type[Entity],
    entity_id: str,
    to_state: str,
    *,
    actor: Actor,
    reason: str,
    category: str,
    metadata: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> Outcome:
    """Force one entity into a state; a dry run does it with all its reactions and rolls it back.

    If the override or its reactions lead to a state that a policy protects, nothing changes: the override is stored as
    a request, which `approvals.approve` executes, and the outcome is `Requested`.
    """
    forcing = Forcing(to_state, actor, reason, category, metadata or {})

    def force_or_request(work: UnitOfWork) -> Outcome:
        entity = work.lock(model, entity_id)
        check_version(entity, expected_version)
        if dry_run:
            return force_entity(work, entity, forcing, is_preview=True)
        bound = {"entity_id": entity_id, "from_state": entity.state, "version": entity.version}
        try:
            # In a savepoint: only the complete cascade shows whether a protected state is reached.
            return run_in_transaction(lambda _: force_entity(work, entity, forcing), within=work)
        except ApprovalRequired as required:
            return request_approval(model, forcing, bound, required.facts["policies"])

    requested = {"to_state": to_state, "reason": reason, "category": category, "dry_run": dry_run}
    recording = recording_refusals(model, entity_id, actor, requested, is_preview=dry_run)
    with counting_refusals(model.flow.entity_type), recording:
        check_override(model, actor, to_state, reason, category)
        validate_reason_and_metadata(reason, metadata or {})
        return run_in_transaction(force_or_request, within=within, dry_run=dry_run, request=request, actor=actor)


def force_entity(work: UnitOfWork, entity: Entity, forcing: Forcing, *, is_preview: bool = False) -> Outcome:
    """Force a locked entity and run the reactions; raises ApprovalRequired if a policy demands an approver."""
    before, actor, approver = entity.__dict__.copy(), forcing.actor, forcing.approver
    facts = Facts(max(now(), entity.updated_at), actor, {}, forcing.reason)
    _check_exit(entity, forcing.to_state, facts)
    bypassed = _force_state(entity, forcing.to_state, facts)
    if forcing.clears_retry_count:
        _clear_retry_count(entity)
    details = {
        "category": str(forcing.category),
        "guards_bypassed": bypassed,
        "approver": approver.name if approver else None,
    }
    spec = EventSpec(EventKind.OVERRIDE, OVERRIDDEN, Severity.WARNING, facts, forcing.metadata, details=details)
    change = record(entity, before, spec)
    work.stage([change])
    work.flush()  # the forced state alone must satisfy the constraints, before its reactions run
    caused = work.react([change])
    if not is_preview:
        check_policies(work, [change.entry, *caused], approver)
        note_forced_step(actor, entity, change.entry)
    return Outcome(work.latest(entity), change.entry, caused)


def note_forced_step(actor: Actor, entity: Entity, entry: Entry) -> None:
    if actor.account is not None:
        add_forced_step(entry, entity.context().get("run_id", ""), actor.account)


def protecting_policies(outcome: Outcome) -> list[Policy]:
    """Return the policies that protect what this outcome, of a call or of its dry run, leads to."""
    return policies_of([outcome.entry, *outcome.caused] if outcome.entry else [])


def policies_of(entries: Iterable[Entry]) -> list[Policy]:
    """Return the policies that protect a state which one of these events enters, or the waiver that it records."""
    return policies_for((entry.entity_type, WAIVED if entry.trigger == WAIVED else entry.to_state) for entry in entries)


def check_policies(work: UnitOfWork, entries: list[Entry], approver: Actor | None) -> None:
    """Raise ApprovalRequired if a policy protects these events and no other person has approved them.

    Only the whole cascade shows that, so none of its reactions may be postponed.
    """
    if work.has_postponed and settings.STATECORE_SECOND_PERSON:
        raise RowsLocked("another transaction holds rows of the cascade")
    policies = policies_of(entries)
    if not policies:
        return
    if approver is None or approver.account is None:
        raise approval_required(entries[0], policies)
    for group in sorted({policy.group for policy in policies} - {""}):
        if not get_user_model().objects.filter(pk=approver.account, groups__name=group).exists():
            raise PermissionDenied(f"the approval takes a member of the group {group}", required=f"group {group}")


def approval_required(entry: Entry, policies: list[Policy]) -> ApprovalRequired:
    names = [str(policy) for policy in policies]
    sentence = f"{entry.entity_type} {entry.entity_id}: {', '.join(names)} takes a second person's approval"
    return ApprovalRequired(sentence, policies=names, required="second_person")


def request_approval(model: type[Entity], forcing: Forcing, bound: Mapping[str, Any], policies: list[str]) -> Requested:
    """Store the override as a request and notify the configured receivers."""
    actor, at = forcing.actor, now()
    if actor.account is None:
        raise PermissionDenied("a request for approval takes a user account", required="second_person")
    target = {"entity_type": model.flow.entity_type, **bound, "to_state": forcing.to_state}
    for pending in with_status(Status.PENDING).filter(**target, account=actor.account):
        raise AlreadyRequested(f"{pending} is waiting for approval already", approval=pending.as_dict())
    made = store_request(
        actor=actor,
        account=actor.account,
        expires_at=at + timedelta(hours=settings.STATECORE_APPROVAL_HOURS),
        **target,
        reason=forcing.reason,
        category=forcing.category,
        metadata=dict(forcing.metadata),
        policies=policies,
    )
    subject = f"Approval needed: {made}, requested by {actor.name}"
    text = f"{subject}\nreason: {made.reason}\nexpires: {format_utc(made.expires_at)}\nstatecore approve {made.pk}"
    store_notices(subject, text, at, urgency=Urgency.WARNING)
    return Requested(None, None, answer={"approval": made.as_dict()})


@contextmanager
def recording_refusals(
    model: type[Entity], entity_id: str, actor: Actor, requested: Mapping[str, Any], *, is_preview: bool
) -> Iterator[None]:
    """Record a refused override in the log and in an append-only table; of dry runs only a denied permission."""
    try:
        yield
    except Refusal as refusal:
        if is_preview and not isinstance(refusal, PermissionDenied):
            raise
        target = {"entity_type": model.flow.entity_type, "entity_id": entity_id}
        log.warning("override_refused", **target, actor=actor.name, code=refusal.code, detail=refusal.detail)
        facts = {**requested, "code": refusal.code}
        audit_note.note(audit_note.Kind.OVERRIDE_REFUSED, actor=actor, **target, detail=refusal.detail, facts=facts)
        raise


def require_override(model: type[Entity], actor: Actor) -> None:
    permission = model.flow.permission("override")
    if actor.kind is not Kind.OPERATOR:
        raise PermissionDenied("only an operator overrides", required=permission)
    rights.require(actor, model.flow, "override")


def check_override(model: type[Entity], actor: Actor, to_state: str, reason: str, category: str) -> None:
    """Refuse what every entity of the machine would refuse."""
    require_override(model, actor)
    errors = reason_errors(reason, category)
    if to_state not in model.flow.states:
        errors["to_state"] = [f"is not a state of {model.flow.entity_type}: {', '.join(model.flow.states)}."]
    if errors:
        raise Invalid(errors)


def reason_errors(reason: str, category: str) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    if len(reason.strip()) < SHORTEST_REASON or not any(map(str.isalnum, reason)):
        errors["reason"] = [f"must be at least {SHORTEST_REASON} characters: it is recorded permanently."]
    if category not in Category.values:
        errors["category"] = [f"must be one of {', '.join(Category.values)}."]
    return errors


def _transitions_to(entity: Entity, to_state: str) -> list[Transition]:
    return [each for each in entity.flow.transitions if entity.state in each.sources and each.target == to_state]


def _check_exit(entity: Entity, to_state: str, facts: Facts) -> None:
    """Final states can be left only by a declared exit; its guards apply to operators too."""
    if entity.state == to_state:
        raise AlreadyInState(f"{entity} is {to_state} already", **entity.current_facts())
    if why := entity.flow.never_forced.get(to_state):
        unmet = [Unmet("never_forced", why)]
        raise GuardFailed(f"{entity} cannot be forced to {to_state}", unmet, **entity.current_facts())
    if not entity.flow.is_final(entity.state):
        return
    check_not_retried(entity)
    exits = _transitions_to(entity, to_state)
    if not exits:
        raise TerminalState(f"{entity} is {entity.state}, which is final: retry it instead", **entity.current_facts())
    if all(unmet_by_exit := [exit_.unmet(entity, facts) for exit_ in exits]):
        raise GuardFailed(f"{entity} may leave {entity.state} only when", unmet_by_exit[0], **entity.current_facts())


def _force_state(entity: Entity, to_state: str, facts: Facts) -> list[str]:
    """Set the state without evaluating guards; return the guards that would have refused, or the missing edge."""
    from_state, declared = entity.state, _transitions_to(entity, to_state)
    bypassed = {name for each in declared for name in _refusing_guards(each, entity, facts)}
    entity.facts = facts
    StateField.force(entity, to_state)
    entity.attempt += 1
    return sorted(bypassed) if declared else [f"no_edge_from_{from_state}_to_{to_state}"]


def _clear_retry_count(entity: Entity) -> None:
    if not entity.flow.retry_counter:
        raise Invalid({CLEAR_RETRY_COUNT: [f"a {entity.flow.entity_type} has no retry count."]})
    setattr(entity, entity.flow.retry_counter, 0)


def _refusing_guards(declared: Transition, entity: Entity, facts: Facts) -> list[str]:
    """A transition with required fields cannot be evaluated without them: all its guards count as bypassed."""
    if declared.leaves_final:  # its guards were evaluated before, and held
        return []
    lacks_fields = any(param.required for param in declared.params)
    return [guard.__name__ for guard in declared.guards if lacks_fields or guard(entity, facts) is not None]
