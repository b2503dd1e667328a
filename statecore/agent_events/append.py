"""Appending to the log of an agent job: what drives its state goes through the door, the rest is only noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.db.models import Max, QuerySet

from .. import door
from ..door import Outcome, RequestKey, rights, rows
from ..door.change import Change
from ..door.idempotency import answer_once
from ..door.perform import perform
from ..door.refused import counted
from ..door.transition import check_version
from ..door.work import current
from ..journal import OVERRIDDEN, Entry, EventKind
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.latch import opened
from ..kernel.plain import plain_payload
from ..kernel.refusals import Invalid, InvalidTransition
from ..machines.agent_job import AgentJob
from ..records.agent_job_event import TYPE_PATTERN, AgentJobEvent
from .fold import OPENINGS

FLOW = AgentJob.flow


class Appended(Outcome):
    """The event as it stands in the log, and where the job is now."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def append(
    job_id: str,
    type: str,  # noqa: A002 - the caller's word for it
    *,
    actor: Actor,
    payload: Mapping[str, Any] | None = None,
    reason: str = "",
    expected_version: int | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
) -> Outcome:
    """One more event of a job's log; an `Appended`, or what a repeated request was told."""

    def step() -> Outcome:
        plain = plain_payload(payload or {})
        if type in FLOW.triggers:
            return _drive(job_id, type, plain, actor=actor, reason=reason, expected_version=expected_version)
        return _note(job_id, type, plain, actor=actor, expected_version=expected_version)

    with counted(FLOW.entity_type):
        return perform(lambda: answer_once(request, actor, step), keep=not dry_run)


def _drive(job_id: str, trigger: str, payload: dict[str, Any], **given: Any) -> Outcome:
    """The trigger's own fields are checked by the door, what else was told goes into the journal as it is."""
    fields = {param.name for move in FLOW.moves if move.trigger == trigger for param in move.params}
    outcome = door.transition(
        AgentJob,
        job_id,
        trigger,
        params={name: value for name, value in payload.items() if name in fields},
        metadata={name: value for name, value in payload.items() if name not in fields},
        **given,
    )
    # An agent job has no silent repeats: whatever was not refused was a change.
    job, entry = cast(AgentJob, outcome.entity), cast(Entry, outcome.entry)
    row = AgentJobEvent.objects.get(job=job_id, journal_event=entry.event_id)
    return Appended(job, entry, outcome.caused, answer=_answer(row, job, changed=True))


def _note(job_id: str, type_: str, payload: dict[str, Any], *, actor: Actor, expected_version: int | None) -> Outcome:
    if TYPE_PATTERN.fullmatch(type_) is None:
        raise Invalid({"type": ["must be 1 to 64 of a-z 0-9 _, beginning with a letter."]})
    if type_ == OVERRIDDEN:
        raise Invalid({"type": ["is written by an override only."]})
    rights.require(actor, FLOW, "operate")
    job = rows.lock(AgentJob, job_id)
    check_version(job, expected_version)
    if type_ in OPENINGS:
        raise InvalidTransition(f"{type_} opens a log, and {job} has one", **job.standing())
    row = _add(job_id, type_, payload, actor=actor.name, at=max(now(), job.updated_at))
    return Appended(job, None, answer=_answer(row, job, changed=False))


def _answer(row: AgentJobEvent, job: Entity, *, changed: bool) -> dict[str, Any]:
    return {**row.as_dict(), "changed": changed, "state": job.state, "version": job.version}


def mirror(changes: list[Change]) -> None:
    """The reaction that keeps the log: every change of an agent job is an event of it, in the same transaction."""
    for change in changes:
        if change.entry.entity_type == FLOW.entity_type:
            _mirror(change)


def _mirror(change: Change) -> None:
    entry = change.entry
    _add(
        entry.entity_id,
        AgentJob.creation_trigger if entry.kind == EventKind.CREATED else entry.trigger,
        {**entry.as_dict()["metadata"], **change.entity.facts.params},
        to_state=entry.to_state if entry.kind == EventKind.OVERRIDE else "",
        journal_event=entry.event_id,
        actor=entry.actor,
        at=entry.timestamp,
    )


def _add(job_id: str, type_: str, payload: dict[str, Any], **columns: Any) -> AgentJobEvent:
    """The job's row is locked or new, so that nobody else takes the same sequence number."""
    last = AgentJobEvent.objects.filter(job=job_id).aggregate(last=Max("sequence"))["last"] or 0
    with opened(current().connection):
        return AgentJobEvent.objects.create(job_id=job_id, sequence=last + 1, type=type_, payload=payload, **columns)


def events_of(job_id: str) -> QuerySet[AgentJobEvent]:
    return AgentJobEvent.objects.filter(job=job_id).order_by("sequence")
