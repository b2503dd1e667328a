"""Replay of agent job logs: the state that a log leads to, and checks that it matches the job's column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from ..journal import OVERRIDDEN
from ..machines.agent_job import BLOCKED, CREATED, AgentJob, State
from ..records.agent_job_event import AgentJobEvent

# The possible first events of a log; jobs created by Statecore always start with the first of these.
OPENINGS = (CREATED, "job_queued", "job_requeued")
STATE_EVENTS = (*OPENINGS, *AgentJob.flow.triggers, OVERRIDDEN)
CHUNK = 2_000


class LoggedEvent(NamedTuple):
    """The part of a log event that determines the state; `to_state` is set for overrides."""

    type: str
    to_state: str = ""


class StateChange(NamedTuple):
    before: str
    event: LoggedEvent
    after: str


def target_state(event: LoggedEvent) -> str | None:
    """Return the state an event leads to, regardless of the state before; None if it changes no state."""
    if event.type == OVERRIDDEN:
        return event.to_state or None
    if event.type in OPENINGS:
        return AgentJob.flow.initial
    return next((each.target for each in AgentJob.flow.transitions if each.trigger == event.type), None)


def replay(events: Iterable[LoggedEvent]) -> str:
    """Return the target of the last event that changes the state; an empty string for an empty log."""
    state = ""
    for event in events:
        state = target_state(event) or state
    return state


def list_state_changes(events: Iterable[LoggedEvent]) -> Iterator[StateChange]:
    before = ""
    for event in events:
        after = target_state(event)
        if after is not None:
            yield StateChange(before, event, after)
            before = after


# Each invariant checks the column and the log of one job and returns a sentence if they violate it.
LogInvariant = Callable[[str, Sequence[LoggedEvent]], str | None]


def every_event_was_allowed(state: str, events: Sequence[LoggedEvent]) -> str | None:
    return next((_describe(change) for change in list_state_changes(events) if not _was_allowed(change)), None)


def final_states_are_not_left(state: str, events: Sequence[LoggedEvent]) -> str | None:
    flow = AgentJob.flow
    exits = flow.final_exits()
    for change in list_state_changes(events):
        if flow.is_final(change.before) and (change.before, change.after) not in exits:
            return f"{change.event.type} follows the final state {change.before}"
    return None


def blocked_jobs_have_a_blocking_event(state: str, events: Sequence[LoggedEvent]) -> str | None:
    return _check_last_change(state, events) if state in BLOCKED else None


def running_jobs_have_a_starting_event(state: str, events: Sequence[LoggedEvent]) -> str | None:
    return _check_last_change(state, events) if state == State.RUNNING else None


def blocked_jobs_are_not_reclaimed(state: str, events: Sequence[LoggedEvent]) -> str | None:
    reclaimed = (each for each in list_state_changes(events) if each.before in BLOCKED and each.after == State.RUNNING)
    return next((_describe(change) for change in reclaimed if change.event.type != OVERRIDDEN), None)


INVARIANTS: tuple[LogInvariant, ...] = (
    every_event_was_allowed,
    final_states_are_not_left,
    blocked_jobs_have_a_blocking_event,
    running_jobs_have_a_starting_event,
    blocked_jobs_are_not_reclaimed,
)


def _was_allowed(change: StateChange) -> bool:
    if not change.before:
        return change.event.type in OPENINGS
    if change.event.type == OVERRIDDEN:
        return AgentJob.flow.may_leave(change.before, change.after)
    return bool(AgentJob.flow.open_transitions(change.before, change.event.type))


def _check_last_change(state: str, events: Sequence[LoggedEvent]) -> str | None:
    changes = list(list_state_changes(events))
    if changes and changes[-1].after == state:
        return None
    return f"it is {state}, but its last state event is {changes[-1].event.type if changes else 'missing'}"


def _describe(change: StateChange) -> str:
    if not change.before:
        return f"{change.event.type} is not allowed as the first event"
    return f"{change.event.type} is not allowed from {change.before}"


# Verification of all logs


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A job with another state in its column than its log leads to."""

    job_id: str
    column: str
    replayed: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A job with a log that violates an invariant."""

    job_id: str
    invariant: str
    sentence: str


def find_mismatches() -> Iterator[Mismatch]:
    for job_id, column, events in _read_logs():
        if (replayed := replay(events)) != column:
            yield Mismatch(job_id, column, replayed)


def find_violations() -> Iterator[Violation]:
    for job_id, column, events in _read_logs():
        for invariant in INVARIANTS:
            if sentence := invariant(column, events):
                yield Violation(job_id, invariant.__name__, sentence)


def _read_logs() -> Iterator[tuple[str, str, Sequence[LoggedEvent]]]:
    """Read every job's column and state events in one statement, so that both are of the same moment."""
    rows = AgentJobEvent.objects.filter(type__in=STATE_EVENTS).order_by("job_id", "sequence")
    found = rows.values_list("job_id", "job__state", "type", "to_state").iterator(chunk_size=CHUNK)
    for (job_id, column), group in groupby(found, key=lambda row: (row[0], row[1])):
        yield job_id, column, [LoggedEvent(type_, to_state) for _job, _column, type_, to_state in group]
    without_log = AgentJob.objects.exclude(pk__in=AgentJobEvent.objects.filter(type__in=STATE_EVENTS).values("job"))
    for job_id, column in without_log.order_by("pk").values_list("pk", "state").iterator(chunk_size=CHUNK):
        yield job_id, column, ()
