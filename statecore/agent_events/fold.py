"""The state of an agent job as the fold of its log, and what must hold of every log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..journal import OVERRIDDEN
from ..machines.agent_job import BLOCKED, CREATED, AgentJob, State

# A log begins with one of these; that of a job made here always with the first.
OPENINGS = (CREATED, "job_queued", "job_requeued")


class Logged(NamedTuple):
    """One event of a job's log, as far as the state is concerned; an override says where it led."""

    type: str
    to_state: str = ""


class Step(NamedTuple):
    before: str
    event: Logged
    after: str


def brought_about(event: Logged) -> str | None:
    """The state an event leads to, whatever came before it; None for an event that leaves the state alone."""
    if event.type == OVERRIDDEN:
        return event.to_state or None
    if event.type in OPENINGS:
        return AgentJob.flow.initial
    return next((move.target for move in AgentJob.flow.moves if move.trigger == event.type), None)


def derive(events: Iterable[Logged]) -> str:
    """The state a log adds up to: the last event that drives it decides. Empty for an empty log."""
    state = ""
    for event in events:
        state = brought_about(event) or state
    return state


def steps(events: Iterable[Logged]) -> Iterator[Step]:
    """The events that drive the state, each with the state before and after it."""
    before = ""
    for event in events:
        after = brought_about(event)
        if after is not None:
            yield Step(before, event, after)
            before = after


# The invariants of a log, over the column and the log of one job: what is wrong, or None.
LogInvariant = Callable[[str, Sequence[Logged]], str | None]


def every_event_was_open(state: str, events: Sequence[Logged]) -> str | None:
    return next((_sentence(step) for step in steps(events) if not _was_open(step)), None)


def nothing_follows_an_end(state: str, events: Sequence[Logged]) -> str | None:
    exits = AgentJob.flow.final_exits()
    wrong = (s for s in steps(events) if AgentJob.flow.is_final(s.before) and (s.before, s.after) not in exits)
    return next((f"{step.event.type} follows the end {step.before}" for step in wrong), None)


def a_wait_begins_with_its_event(state: str, events: Sequence[Logged]) -> str | None:
    return _entered_by_its_own_event(state, events) if state in BLOCKED else None


def a_run_begins_with_its_event(state: str, events: Sequence[Logged]) -> str | None:
    return _entered_by_its_own_event(state, events) if state == State.RUNNING else None


def the_blocked_are_not_reclaimed(state: str, events: Sequence[Logged]) -> str | None:
    taken = (s for s in steps(events) if s.before in BLOCKED and s.after == State.RUNNING)
    return next((_sentence(step) for step in taken if step.event.type != OVERRIDDEN), None)


INVARIANTS: tuple[LogInvariant, ...] = (
    every_event_was_open,
    nothing_follows_an_end,
    a_wait_begins_with_its_event,
    a_run_begins_with_its_event,
    the_blocked_are_not_reclaimed,
)


def _was_open(step: Step) -> bool:
    if not step.before:
        return step.event.type in OPENINGS
    if step.event.type == OVERRIDDEN:
        return AgentJob.flow.may_leave(step.before, step.after)
    return bool(AgentJob.flow.open_moves(step.before, step.event.type))


def _entered_by_its_own_event(state: str, events: Sequence[Logged]) -> str | None:
    driving = list(steps(events))
    if driving and driving[-1].after == state:
        return None
    return f"it is {state}, and the last event that drives it is {driving[-1].event.type if driving else 'missing'}"


def _sentence(step: Step) -> str:
    return f"{step.event.type} was not open from {step.before or 'nothing'}"
