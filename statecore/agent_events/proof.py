"""The proof that the state of every agent job is the fold of its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..journal import OVERRIDDEN
from ..machines.agent_job import AgentJob
from ..records.agent_job_event import AgentJobEvent
from .fold import INVARIANTS, OPENINGS, Logged, derive

DRIVING = (*OPENINGS, *AgentJob.flow.triggers, OVERRIDDEN)
CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A job whose column is not what its log adds up to."""

    job_id: str
    column: str
    folded: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A job whose log breaks an invariant of logs."""

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
