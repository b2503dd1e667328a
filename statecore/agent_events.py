"""Appending to the log of an agent job: what drives its state goes through the door, the rest is only noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from django.db.models import Max, QuerySet

from . import door
from .door import Outcome, RequestKey, rights, rows
from .door.change import Change
from .door.idempotency import answer_once
from .door.refused import counted
from .door.transition import check_version
from .door.work import perform
from .journal import Entry, Kind
from .kernel.actors import Actor
from .kernel.clock import now
from .kernel.entity import Entity
from .kernel.refusals import Invalid, InvalidTransition
from .machines.agent_job import INVARIANTS, OPENINGS, OVERRIDDEN, AgentJob, Logged, derive
from .records.agent_job_event import TYPE_PATTERN, AgentJobEvent, plain_payload

PAYLOAD_LIMIT = 262_144
FLOW = AgentJob.flow
DRIVING = (*OPENINGS, *FLOW.triggers, OVERRIDDEN)
CHUNK = 2_000


class Appended(Outcome):
    """The event as it stands in the log, and where the job is now."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def append(
    job_id: str,
    type: str,  # noqa: A002 - the word of 002
    *,
    actor: Actor,
    payload: Mapping[str, Any] | None = None,
    reason: str = "",
    expected_version: int | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
) -> Outcome:
    """One more event of a job's log; an `Appended`, or what a repeated request was told."""
    plain = plain_payload(payload or {}, PAYLOAD_LIMIT)

    def step() -> Outcome:
        if type in FLOW.triggers:
            return _drive(job_id, type, plain, actor=actor, reason=reason, expected_version=expected_version)
        with counted(FLOW.entity_type, actor, job_id, "append"):
            return _note(job_id, type, plain, actor=actor, expected_version=expected_version)

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
        standing = {"state": job.state, "version": job.version, "allowed": FLOW.allowed(job.state)}
        raise InvalidTransition(f"{type_} opens a log, and {job} has one", **standing)
    row = _add(job_id, type_, payload, actor=actor.name, at=max(now(), job.updated_at))
    return Appended(job, None, answer=_answer(row, job, changed=False))


def _answer(row: AgentJobEvent, job: Entity, *, changed: bool) -> dict[str, Any]:
    return {**row.as_dict(), "changed": changed, "state": job.state, "version": job.version}


def mirror(change: Change) -> None:
    """The reaction that keeps the log: every change of an agent job is an event of it, in the same transaction."""
    entry = change.entry
    if entry.entity_type != FLOW.entity_type:
        return
    _add(
        entry.entity_id,
        AgentJob.creation_trigger if entry.kind == Kind.CREATED else entry.trigger,
        {**entry.as_dict()["metadata"], **change.entity.facts.params},
        to_state=entry.to_state if entry.kind == Kind.OVERRIDE else "",
        journal_event=entry.event_id,
        actor=entry.actor,
        at=entry.timestamp,
    )


def _add(job_id: str, type_: str, payload: dict[str, Any], **columns: Any) -> AgentJobEvent:
    """The job's row is locked or new, so that nobody else takes the same sequence number."""
    last = AgentJobEvent.objects.filter(job=job_id).aggregate(last=Max("sequence"))["last"] or 0
    return AgentJobEvent.objects.create(job_id=job_id, sequence=last + 1, type=type_, payload=payload, **columns)


def events_of(job_id: str) -> QuerySet[AgentJobEvent]:
    return AgentJobEvent.objects.filter(job=job_id).order_by("sequence")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A job whose column is not what its log adds up to."""

    job_id: str
    column: str
    folded: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A job whose log breaks an invariant of 002 §5."""

    job_id: str
    invariant: str
    sentence: str


def disagreements() -> Iterator[Disagreement]:
    for job_id, column, events in _logs():
        if (folded := derive(events)) != column:
            yield Disagreement(job_id, column, folded)


def violations() -> Iterator[Violation]:
    for job_id, column, events in _logs():
        for invariant in INVARIANTS:
            if sentence := invariant(column, events):
                yield Violation(job_id, invariant.__name__, sentence)


def _logs() -> Iterator[tuple[str, str, Sequence[Logged]]]:
    """Every job with its column and the events that drive it: one statement, so both are of the same moment."""
    driving = AgentJobEvent.objects.filter(type__in=DRIVING).order_by("job_id", "sequence")
    found = driving.values_list("job_id", "job__state", "type", "to_state").iterator(chunk_size=CHUNK)
    for (job_id, column), group in groupby(found, key=lambda row: (row[0], row[1])):
        yield job_id, column, [Logged(type_, to_state) for _job, _column, type_, to_state in group]
    yield from ((job_id, column, ()) for job_id, column in _without_a_log())


def _without_a_log() -> Iterator[tuple[str, str]]:
    unlogged = AgentJob.objects.exclude(pk__in=AgentJobEvent.objects.filter(type__in=DRIVING).values("job"))
    found: Iterator[tuple[str, str]] = unlogged.order_by("pk").values_list("pk", "state").iterator(chunk_size=CHUNK)
    return found
