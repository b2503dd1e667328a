"""The log of an agent job. Events named after a trigger change its state; all others are only recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.db.models import Max, QuerySet

from .. import transitions
from ..journal import OVERRIDDEN, Entry, EventKind
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.refusals import Invalid, InvalidTransition
from ..kernel.validation import validate_payload
from ..machines.agent_job import AgentJob
from ..records.agent_job_event import TYPE_PATTERN, AgentJobEvent
from ..storage.write_guard import allow_writes
from ..transitions import Outcome, RequestKey, rights
from ..transitions.change import Change, check_version
from ..transitions.outcome import counting_refusals
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from .agent_job_replay import OPENINGS

FLOW = AgentJob.flow


class Appended(Outcome):
    """An outcome that is rendered as the appended event, with the job's state and version."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def events_of(job_id: str) -> QuerySet[AgentJobEvent]:
    return AgentJobEvent.objects.filter(job=job_id).order_by("sequence")


def append_event(
    job_id: str,
    type: str,  # noqa: A002 - the API's name for it
    *,
    actor: Actor,
    payload: Mapping[str, Any] | None = None,
    reason: str = "",
    expected_version: int | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Append an event to a job's log; return `Appended`, or the first outcome if the request is a repetition."""

    def append(work: UnitOfWork) -> Outcome:
        plain = validate_payload(payload or {})
        if type in FLOW.triggers:
            options = {"actor": actor, "reason": reason, "expected_version": expected_version, "within": work}
            return _fire(job_id, type, plain, **options)
        return _record(work, job_id, type, plain, actor=actor, expected_version=expected_version)

    with counting_refusals(FLOW.entity_type):
        return run_in_transaction(append, dry_run=dry_run, request=request, actor=actor)


def _fire(job_id: str, trigger: str, payload: dict[str, Any], **options: Any) -> Outcome:
    """Fire the trigger with its parameters from the payload; the rest of the payload becomes metadata."""
    names = {param.name for each in FLOW.transitions if each.trigger == trigger for param in each.params}
    outcome = transitions.transition(
        AgentJob,
        job_id,
        trigger,
        params={name: value for name, value in payload.items() if name in names},
        metadata={name: value for name, value in payload.items() if name not in names},
        **options,
    )
    # No trigger of an agent job is accepted without a change, so there is always an entry.
    job, entry = cast(AgentJob, outcome.entity), cast(Entry, outcome.entry)
    row = AgentJobEvent.objects.get(job=job_id, journal_event=entry.event_id)
    return Appended(job, entry, outcome.caused, answer=_serialize(row, job, changed=True))


def _record(
    work: UnitOfWork, job_id: str, type_: str, payload: dict[str, Any], *, actor: Actor, expected_version: int | None
) -> Outcome:
    if TYPE_PATTERN.fullmatch(type_) is None:
        raise Invalid({"type": ["must be 1 to 64 of a-z 0-9 _, beginning with a letter."]})
    if type_ == OVERRIDDEN:
        raise Invalid({"type": ["is reserved for overrides."]})
    rights.require(actor, FLOW, "operate")
    job = work.lock(AgentJob, job_id)
    rights.require_holder(actor, job)
    check_version(job, expected_version)
    if type_ in OPENINGS:
        raise InvalidTransition(f"{type_} must be the first event, and {job} already has events", **job.current_facts())
    at = max(now(), job.updated_at)
    row = _insert(work, job_id, type_, payload, actor=actor.name, at=at)
    if actor.holds:
        AgentJob.objects.filter(pk=job_id).update(last_heartbeat=at)
    return Appended(job, None, answer=_serialize(row, job, changed=False))


def _serialize(row: AgentJobEvent, job: Entity, *, changed: bool) -> dict[str, Any]:
    return {**row.as_dict(), "changed": changed, "state": job.state, "version": job.version}


def append_changes(work: UnitOfWork, changes: list[Change]) -> None:
    """Append every change of an agent job to its log, in the same transaction."""
    work.flush()
    for change in changes:
        entry = change.entry
        _insert(
            work,
            entry.entity_id,
            AgentJob.creation_trigger if entry.kind == EventKind.CREATED else entry.trigger,
            {**entry.as_dict()["metadata"], **change.entity.facts.params},
            to_state=entry.to_state if entry.kind == EventKind.OVERRIDE else "",
            journal_event=entry.event_id,
            actor=entry.actor,
            at=entry.timestamp,
        )


def _insert(work: UnitOfWork, job_id: str, type_: str, payload: dict[str, Any], **columns: Any) -> AgentJobEvent:
    """Insert the next event of a job. Its row is locked or new, so no other transaction takes the same number."""
    last = AgentJobEvent.objects.filter(job=job_id).aggregate(last=Max("sequence"))["last"] or 0
    with allow_writes(work.connection):
        return AgentJobEvent.objects.create(job_id=job_id, sequence=last + 1, type=type_, payload=payload, **columns)
