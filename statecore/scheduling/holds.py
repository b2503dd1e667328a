"""Placing, releasing and ending holds. Each change is an entry of the journal, in the transaction of the change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from ..journal.entries import append_entry
from ..journal.event_names import EventKind
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import format_utc, now, rfc3339
from ..kernel.ids import is_valid_id, new_id
from ..kernel.refusals import Invalid, NotFound, TerminalState
from ..kernel.validation import text_error
from ..machines.run import Run
from ..records.hold import REASON_LENGTH, TARGET_LENGTH, Hold, Kind, Status
from ..records.phase import Phase
from ..storage.journal_rules import HOLD
from ..transitions import rights

PLACED, RELEASED, EXPIRED = "hold_placed", "hold_released", "hold_expired"
BATCH = 500
SCOPES = "everything, phase:ID, run:ID, capability:NAME or tool:NAME"


def place(scope: str, *, reason: str, actor: Actor, expires_at: datetime | None = None) -> Hold:
    """Give out no new work within the scope until the hold ends; raises Invalid and PermissionDenied."""
    rights.require_record(actor, "add", "hold")
    at = now()
    kind, target = _read_scope(scope)
    errors = {"scope": _find_scope_error(kind, target), "reason": _find_reason_error(reason)}
    if expires_at is not None and expires_at <= at:
        errors["expires_at"] = f"must be later than now, {format_utc(at)}."
    if found := {name: [error] for name, error in errors.items() if error}:
        raise Invalid(found)

    with transaction.atomic():
        hold = Hold.objects.create(
            id=new_id("hold"), kind=kind, target=target, reason=reason, created_by=actor.name, created_at=at,
            expires_at=expires_at,
        )  # fmt: skip
        _record(PLACED, hold, actor, reason)
    return hold


def release(hold_id: str, *, reason: str, actor: Actor) -> Hold:
    """End a hold before it expires; raises NotFound, and TerminalState if it has ended already."""
    rights.require_record(actor, "change", "hold")
    if error := _find_reason_error(reason):
        raise Invalid({"reason": [error]})
    with transaction.atomic():
        hold = get(hold_id, Hold.objects.select_for_update())
        if hold.status is not Status.ACTIVE:
            raise TerminalState(f"{hold} has ended: it was {hold.status}", state=str(hold.status))
        hold.ended_at, hold.released_by, hold.release_reason = now(), actor.name, reason
        hold.save(update_fields=("ended_at", "released_by", "release_reason"))
        _record(RELEASED, hold, actor, reason)
    return hold


def get(hold_id: str, among: QuerySet[Hold] | None = None) -> Hold:
    holds = Hold.objects.all() if among is None else among
    found = holds.filter(pk=hold_id).first() if is_valid_id(hold_id) else None
    if found is None:
        raise NotFound(f"there is no hold {hold_id!r}")
    return found


def end_expired() -> int:
    """Record the end of holds that have expired; return how many. Claims ignore them without it."""
    due = Hold.objects.filter(ended_at=None, expires_at__lte=now()).order_by("expires_at")
    return sum(_end(pk) for pk in due.values_list("pk", flat=True)[:BATCH])


def _end(hold_id: str) -> bool:
    """Return False if another process has ended the hold."""
    with transaction.atomic():
        hold = get(hold_id, Hold.objects.select_for_update())
        if hold.ended_at is not None:
            return False
        hold.ended_at = hold.expires_at
        hold.save(update_fields=("ended_at",))
        _record(EXPIRED, hold, THE_SYSTEM, None)
    return True


def _read_scope(scope: str) -> tuple[str, str]:
    kind, _colon, target = scope.partition(":")
    return kind, target


def _find_scope_error(kind: str, target: str) -> str | None:
    if kind not in Kind.values or bool(target) == (kind == Kind.EVERYTHING):
        return f"must be {SCOPES}."
    if error := text_error(target, TARGET_LENGTH):
        return error
    known: dict[str, Any] = {Kind.PHASE: Phase, Kind.RUN: Run}
    if kind in known and not (is_valid_id(target) and known[kind].objects.filter(pk=target).exists()):
        return f"there is no {kind} {target}."
    return None


def _find_reason_error(reason: str) -> str | None:
    return text_error(reason, REASON_LENGTH) if reason.strip() else "may not be empty."


def _record(trigger: str, hold: Hold, actor: Actor, reason: str | None) -> None:
    expires_at = rfc3339(hold.expires_at) if hold.expires_at else None
    append_entry(
        EventKind.HOLD,
        HOLD,
        hold.pk,
        trigger,
        actor=actor,
        reason=reason,
        metadata={"scope": hold.scope, "expires_at": expires_at},
        context={"run_id": hold.target} if hold.kind == Kind.RUN else {},
    )
