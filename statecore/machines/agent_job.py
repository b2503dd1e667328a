"""An agent job: its state is the fold of its events, and the column is a cache of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import models

from ..kernel import constraints
from ..kernel.actors import AGENT, OPERATOR, SYSTEM
from ..kernel.entity import Entity
from ..kernel.flow import Flow, Rest, Succession
from ..kernel.lease import the_lease_is_held
from ..kernel.moves import Facts, Severity, move
from ..kernel.refusals import Unmet
from ..kernel.state_field import StateField

CREATED = "job_created"
# A job's log begins with one of these; a job made here always begins with the first.
OPENINGS = (CREATED, "job_queued", "job_requeued")
OVERRIDDEN = "manual_override"


class State(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PARKED = "parked"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = {State.COMPLETED, State.FAILED, State.CANCELLED}
BLOCKED = {State.WAITING, State.PARKED}


def the_retry_is_due(job: AgentJob, facts: Facts) -> Unmet | None:
    if job.retry_at is None or facts.at >= job.retry_at:
        return None
    return Unmet("backing_off", f"the next try is due at {job.retry_at:%H:%M:%S} UTC")


def the_delay_is_not_negative(job: AgentJob, facts: Facts) -> Unmet | None:
    delay = facts.params.get("delay_seconds", 0)
    return Unmet("negative_delay", f"a delay of {delay} s lies in the past") if delay < 0 else None


class AgentJob(Entity):
    creation_trigger = CREATED
    flow = Flow(
        version="1.0.0",
        collection="agent-jobs",
        final=FINAL,
        done={State.COMPLETED},
        timing={
            State.QUEUED: Rest("it waits in the queue until a worker leases it"),
            State.RUNNING: timedelta(minutes=30),
            State.WAITING: timedelta(hours=1),
            State.PARKED: Rest("only its signal wakes it, however long that takes"),
            State.RETRYING: timedelta(minutes=20),
        },
        rising=("attempt",),
        succession=Succession(fields=("agent", "goal", "metadata")),
    )

    state = StateField(State, initial=State.QUEUED)
    agent = models.CharField(max_length=150, blank=True)
    goal = models.TextField(blank=True)
    # Texts: a trigger's own field may be longer than a column, and PostgreSQL would cut it off in silence.
    worker_name = models.TextField(default="", editable=False)
    waiting_for = models.TextField(default="", editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    result = models.JSONField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.known_state("agent_job", State),
            models.CheckConstraint(
                condition=(models.Q(state=State.RUNNING) & ~models.Q(worker_name=""))
                | (~models.Q(state=State.RUNNING) & models.Q(worker_name="")),
                name="agent_job_runs_exactly_with_a_worker",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=sorted(BLOCKED)) | models.Q(waiting_for=""),
                name="agent_job_waits_for_something_only_when_blocked",
            ),
            constraints.unset_in("agent_job", "retry_at", set(State) - {State.RETRYING}),
            constraints.set_in("agent_job", "started_at", {State.RUNNING}),
            constraints.set_exactly_in("agent_job", "completed_at", FINAL),
            constraints.in_order("agent_job", "created_at", "started_at"),
            constraints.in_order("agent_job", "started_at", "completed_at"),
            constraints.in_order("agent_job", "created_at", "completed_at"),
        )
        indexes = (
            models.Index(
                fields=("state", "state_entered_at"),
                condition=~models.Q(state__in=sorted(FINAL)),
                name="agent_job_live_by_state",
            ),
        )

    def settle(self, at: datetime, reason: str) -> None:
        self.completed_at = at if self.state in FINAL else None
        if self.state != State.RUNNING:
            self.worker_name = ""
        if self.state not in BLOCKED:
            self.waiting_for = ""
        if self.state != State.RETRYING:
            self.retry_at = None

    @move(
        "job_requeued",
        source={State.QUEUED, State.RUNNING, State.RETRYING},
        target=State.QUEUED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_lease_is_held],
        severity=Severity.WARNING,
    )
    def requeue(self, attempt: int | None = None) -> None: ...

    @move(
        "job_requeued",
        source=State.FAILED,
        target=State.QUEUED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_lease_is_held],
        severity=Severity.WARNING,
        leaves_final="a failed job is queued again in place: its log goes on (002 §3)",
    )
    def requeue_after_failure(self, attempt: int | None = None) -> None: ...

    @move(
        "job_leased",
        source={State.QUEUED, State.RETRYING},
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[the_retry_is_due],
    )
    def lease(self, worker: str = "") -> None:
        self._begin(worker)

    @move(
        "job_running",
        source={State.QUEUED, State.RETRYING},
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[the_retry_is_due],
    )
    def run(self, worker: str = "") -> None:
        self._begin(worker)

    @move("job_waiting", source=State.RUNNING, target=State.WAITING, by={AGENT, SYSTEM}, guards=[the_lease_is_held])
    def wait(self, signal: str = "", attempt: int | None = None) -> None:
        self.waiting_for = signal

    @move("job_parked", source=State.WAITING, target=State.PARKED, by={OPERATOR, SYSTEM})
    def park(self) -> None: ...

    @move(
        "wait_completed",
        source={State.QUEUED, State.RUNNING, *BLOCKED, State.RETRYING},
        target=State.QUEUED,
        by={AGENT, OPERATOR, SYSTEM},
    )
    def wake(self) -> None: ...

    @move("job_completed", source=State.RUNNING, target=State.COMPLETED, by={AGENT, SYSTEM}, guards=[the_lease_is_held])
    def finish(self, result: dict[str, Any] | None = None, attempt: int | None = None) -> None:
        self.result = result

    @move(
        "job_failed",
        source=State.RUNNING,
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[the_lease_is_held],
        severity=Severity.ERROR,
    )
    def fail(self, error: str = "", attempt: int | None = None) -> None:
        self.last_error = error or self.facts.reason

    @move(
        "job_cancelled",
        source={State.RUNNING, *BLOCKED},
        target=State.CANCELLED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_lease_is_held],
        severity=Severity.WARNING,
    )
    def cancel(self, attempt: int | None = None) -> None: ...

    @move(
        "job_retry_scheduled",
        source=State.RUNNING,
        target=State.RETRYING,
        by={OPERATOR, SYSTEM},
        guards=[the_delay_is_not_negative],
        severity=Severity.WARNING,
    )
    def schedule_retry(self, delay_seconds: int = 0, error: str = "") -> None:
        self._retry_later(delay_seconds, error)

    @move(
        "job_retry_scheduled",
        source=State.FAILED,
        target=State.RETRYING,
        by={OPERATOR, SYSTEM},
        guards=[the_delay_is_not_negative],
        severity=Severity.WARNING,
        leaves_final="a failed job that will be tried again waits for its turn (DESIGN §9.1)",
    )
    def schedule_retry_after_failure(self, delay_seconds: int = 0, error: str = "") -> None:
        self._retry_later(delay_seconds, error)

    def _begin(self, worker: str) -> None:
        self.worker_name = worker or self.facts.actor.name
        self.started_at = self.facts.at
        self.attempt += 1

    def _retry_later(self, delay_seconds: int, error: str) -> None:
        self.retry_at = self.facts.at + timedelta(seconds=delay_seconds)
        self.last_error = error or self.last_error


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
        return event.to_state
    if event.type in OPENINGS:
        return AgentJob.flow.initial
    return next((move.target for move in AgentJob.flow.moves if move.trigger == event.type), None)


def derive(events: Iterable[Logged]) -> str:
    """The state a log adds up to (002 §4): the last event that drives it decides. Empty for an empty log."""
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


# The invariants of 002 §5, over the column and the log of one job: what is wrong, or None.
Invariant = Callable[[str, Sequence[Logged]], str | None]


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


INVARIANTS: tuple[Invariant, ...] = (
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
        return not AgentJob.flow.is_final(step.before) or (step.before, step.after) in AgentJob.flow.final_exits()
    return bool(AgentJob.flow.open_moves(step.before, step.event.type))


def _entered_by_its_own_event(state: str, events: Sequence[Logged]) -> str | None:
    driving = list(steps(events))
    if driving and driving[-1].after == state:
        return None
    return f"it is {state}, and the last event that drives it is {driving[-1].event.type if driving else 'missing'}"


def _sentence(step: Step) -> str:
    return f"{step.event.type} was not open from {step.before or 'nothing'}"
