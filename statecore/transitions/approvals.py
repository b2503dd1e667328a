"""Approvals: a second person decides about an override that a policy protects.

The request is bound to one version of the entity. Approving executes the override with the rights that its requester
has by then; request, decision and event are committed together. Every decision is made under the lock of the entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Q

from ..journal import Entry
from ..kernel import registry
from ..kernel.actors import THE_SYSTEM, Actor, Channel
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.ids import is_valid_id
from ..kernel.refusals import (
    AlreadyDecided,
    ApprovalExpired,
    Invalid,
    NotFound,
    PermissionDenied,
    SamePerson,
    StaleVersion,
)
from ..kernel.validation import text_error
from ..records import approval as records
from ..records.alert import store_notices
from ..records.approval import COMMENT_LENGTH, Approval, ForcedStep, Status
from ..records.service_account import is_service, person_of
from ..records.token import Token
from ..storage.keyset_scan import next_by_id
from . import rights
from .change import check_version
from .idempotency import RequestKey
from .outcome import Outcome, counting_refusals
from .override import (
    WAIVED,
    Forcing,
    Requested,
    approval_required,
    force_entity,
    override,
    policies_of,
    recording_refusals,
    require_override,
)
from .unit_of_work import RowsLocked, UnitOfWork, run_in_transaction
from .waivers import waive, waive_entity

BATCH = 500
LONGEST_LINEAGE = 100


def get(approval_id: str) -> Approval:
    found = records.find(approval_id) if is_valid_id(approval_id) else None
    if found is None:
        raise NotFound(f"there is no request for approval {approval_id!r}")
    return found


def approve(approval_id: str, *, actor: Actor, comment: str = "", request: RequestKey | None = None) -> Outcome:
    """Execute the override as requested; raises StaleVersion if the entity has changed since the request."""

    def decide(work: UnitOfWork) -> Outcome:
        entity = work.lock(_model(approval), approval.entity_id)
        _check_open(approval_id)
        check_version(entity, approval.version)
        metadata = {**approval.metadata, "approval": approval.pk}
        forcing = Forcing(
            approval.to_state, _requester(approval), approval.reason, approval.category, metadata, approver=actor
        )
        execute = waive_entity if approval.to_state == WAIVED else force_entity
        outcome = execute(work, entity, forcing)
        event_id = outcome.entry.event_id if outcome.entry else ""
        _decide(approval, Status.APPROVED, actor, comment, event_id)
        return outcome

    approval = get(approval_id)
    with counting_refusals(approval.entity_type), _recording(approval, actor, "approve"):
        _check_decider(approval, actor, comment)
        try:
            return run_in_transaction(decide, request=request, actor=actor)
        except StaleVersion:
            _close(approval, Status.OUTDATED)
            raise


def deny(approval_id: str, *, actor: Actor, comment: str = "", request: RequestKey | None = None) -> Outcome:
    """Refuse the override for good; the entity does not change."""

    def execute(work: UnitOfWork) -> Outcome:
        work.lock(_model(approval), approval.entity_id)
        _check_open(approval_id)
        _decide(approval, Status.DENIED, actor, comment)
        return Requested(None, None, answer={"approval": get(approval_id).as_dict()})

    approval = get(approval_id)
    with counting_refusals(approval.entity_type), _recording(approval, actor, "deny"):
        _check_decider(approval, actor, comment)
        return run_in_transaction(execute, request=request, actor=actor)


def preview(approval: Approval, actor: Actor) -> Outcome:
    """Run the override and roll it back; raises the refusal that approving would raise."""
    model = _model(approval)
    check_version(model.objects.get(pk=approval.entity_id), approval.version)
    if approval.to_state == WAIVED:
        return waive(
            model,
            approval.entity_id,
            actor=actor,
            reason=approval.reason,
            category=approval.category,
            expected_version=approval.version,
            dry_run=True,
        )
    return override(
        model,
        approval.entity_id,
        approval.to_state,
        actor=actor,
        reason=approval.reason,
        category=approval.category,
        metadata=approval.metadata,
        expected_version=approval.version,
        dry_run=True,
    )


def check_steps(work: UnitOfWork, actor: Actor, entries: Sequence[Entry]) -> None:
    """Refuse a transition into a protected state of an entity that the same account has forced before.

    Otherwise one person could force the entity to the step before and then take the last step without force, also with
    the token of an agent, or as a reaction that is postponed.
    """
    account = actor.account_or_owner
    if account is None or not settings.STATECORE_SECOND_PERSON:
        return
    for entry in entries:
        policies = policies_of([entry])
        if policies and _has_forced(account, entry):
            raise approval_required(entry, policies)
    if work.has_postponed and any(_has_forced(account, entry) for entry in entries):
        raise RowsLocked("another transaction holds rows of the cascade")


def close_overdue() -> int:
    """Close requests that have expired or whose entity has changed; return how many. Bounded and repeatable."""
    pending = list(records.with_status(Status.PENDING).order_by("expires_at")[:BATCH])
    moved = [each for each in pending if _current_version(each) != each.version]
    # Requests are never deleted, and most were decided long ago: a circular scan, which starts with the newest.
    batch = [pk for (pk,) in next_by_id(Approval.objects, _places, "approvals", BATCH)]
    expired = Approval.objects.filter(pk__in=batch, decision=None, expires_at__lte=now())
    closed = [_close(each, Status.OUTDATED) for each in moved]
    closed += [_close(each, Status.EXPIRED) for each in expired]
    return sum(closed)


_places: dict[str, Any] = {}


def _model(approval: Approval) -> type[Entity]:
    return registry.flow(approval.entity_type).model


def _recording(approval: Approval, actor: Actor, decision: str) -> Any:
    requested = {"approval": approval.pk, "decision": decision, "to_state": approval.to_state}
    return recording_refusals(_model(approval), approval.entity_id, actor, requested, is_preview=False)


def _check_decider(approval: Approval, actor: Actor, comment: str) -> None:
    require_override(_model(approval), actor)
    if actor.account is None or is_service(actor.account):
        raise SamePerson(f"{actor.name} is not a person, and only people decide", required="second_person")
    if person_of(actor.account) == person_of(approval.account):
        raise SamePerson(
            f"{approval} was requested from this account, or from a service account of its owner: another person "
            "decides",
            required="second_person",
        )
    if complaint := text_error(comment, COMMENT_LENGTH):
        raise Invalid({"comment": [complaint]})


def _check_open(approval_id: str) -> None:
    """Refuse a request that is not pending any more; read under the lock of the entity."""
    approval = get(approval_id)
    facts = {"approval": approval.as_dict()}
    if approval.status is Status.EXPIRED:
        raise ApprovalExpired(f"the request for {approval} expired", **facts)
    if approval.status is Status.OUTDATED:
        version = _current_version(approval)
        raise StaleVersion(f"{approval} was requested for version {approval.version}", version=version, **facts)
    if approval.status is not Status.PENDING:
        raise AlreadyDecided(f"the request for {approval} was {approval.status} already", **facts)


def _requester(approval: Approval) -> Actor:
    """Return the requester with the rights of now; a renamed account counts as another one."""
    user: Any = get_user_model().objects.filter(pk=approval.account, is_active=True).first()
    token = Token.objects.select_related("user").filter(prefix=approval.token).first() if approval.token else None
    if user is None or user.get_username() != approval.requested_by:
        raise PermissionDenied(f"the account of {approval.requested_by} is not active any more", required="requester")
    if approval.token and (token is None or not token.is_good(now())):
        raise PermissionDenied(f"the token of {approval.requested_by} is not valid any more", required="requester")
    actor = token.as_operator() if token else Actor.operator(user, Channel(approval.channel))
    action = "waive" if approval.to_state == WAIVED else "override"
    rights.require(actor, registry.flow(approval.entity_type), action)
    return actor


def _decide(approval: Approval, status: Status, actor: Actor, comment: str = "", event_id: str = "") -> None:
    records.decide(approval, status, actor=actor, comment=comment, event_id=event_id)
    by = f" by {actor.name}" if actor.account is not None else ""
    subject = f"{status.capitalize()}{by}: {approval}, requested by {approval.requested_by}"
    store_notices(subject, f"{subject}\nreason: {approval.reason}\ncomment: {comment or '-'}", now())


def _close(approval: Approval, status: Status) -> bool:
    """Record that a request can no longer be decided; return False if it is decided already."""

    def step(work: UnitOfWork) -> bool:
        work.lock(_model(approval), approval.entity_id)
        if get(approval.pk).decided is not None:
            return False
        _decide(approval, status, THE_SYSTEM)
        return True

    return run_in_transaction(step)


def _current_version(approval: Approval) -> int:
    rows = _model(approval).objects.filter(pk=approval.entity_id)
    return int(rows.values_list("version", flat=True).get())


def _has_forced(account: int, entry: Entry) -> bool:
    """Whether the account has forced this entity, an entity of its run, or one that they replaced by a retry."""
    same = Q(entity_type=entry.entity_type, entity_id__in=_lineage(entry.entity_type, entry.entity_id))
    if run_id := entry.as_dict()["context"].get("run_id"):
        same |= Q(run_id__in=_lineage("run", run_id))
    return ForcedStep.objects.filter(same, account=account).exists()


def _lineage(entity_type: str, entity_id: str) -> list[str]:
    """Return the id and those of the entities before it that were retried."""
    model, ids = registry.flow(entity_type).model, [entity_id]
    while len(ids) < LONGEST_LINEAGE:
        before = model.objects.filter(pk=ids[-1]).values_list("retry_of", flat=True).first()
        if before is None:
            break
        ids.append(before)
    return ids
