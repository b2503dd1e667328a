"""A run: one execution of a plan; its workstreams decide whether it succeeds or fails."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import OuterRef, Q

from ..framework.declarations import (
    AGENT,
    ANY,
    OPERATOR,
    SYSTEM,
    Entity,
    Facts,
    Flow,
    Invariant,
    Severity,
    SqlLiteral,
    StateField,
    Succession,
    Unmet,
    constraints,
    format_utc,
    has_no_successor,
    has_part,
    is_live,
    live_by_state,
    related,
    transition,
)


class State(models.TextChoices):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


FINAL = {State.SUCCEEDED, State.FAILED, State.CANCELED}
STARTED = ("ready", "executing", "validating")  # states of workstreams whose tasks may move
MAX_WEIGHT = 100


class OnFailure(models.TextChoices):
    """What follows when a part has failed and nothing can continue without a decision."""

    WAIT = "wait"
    FAIL = "fail"


def all_workstreams_are_completed_or_skipped(run: Run, facts: Facts) -> Unmet | None:
    counting = run.workstreams.filter(successor=None)  # the successor of a retried workstream counts instead
    open_one = counting.exclude(state__in=("completed", "skipped")).values_list("pk", "state").first()
    return open_one and Unmet(
        "workstream_open", f"workstream {open_one[0]} is {open_one[1]}", open_one[0], "workstream"
    )


def a_critical_workstream_has_failed(run: Run, facts: Facts) -> Unmet | None:
    if run.workstreams.filter(is_critical=True, state="failed", successor=None).exists():
        return None
    return Unmet("no_critical_failure", "no critical workstream has failed")


def it_fails_instead_of_waiting(run: Run, facts: Facts) -> Unmet | None:
    if run.on_failure == OnFailure.FAIL:
        return None
    return Unmet("waits_for_decisions", "its plan does not say on_failure: fail, so it waits for a decision")


def nothing_can_continue(run: Run, facts: Facts) -> Unmet | None:
    if all_workstreams_are_completed_or_skipped(run, facts) is None:
        return Unmet("no_open_workstream", "it has no unfinished workstream")
    part = run.find_moving_part()
    return part and Unmet("part_continues", f"{part} continues without a decision", part.pk, part.flow.entity_type)


def its_time_has_come(run: Run, facts: Facts) -> Unmet | None:
    if run.not_before is None or facts.at >= run.not_before:
        return None
    return Unmet("too_early", f"waits until {format_utc(run.not_before)}")


class Run(Entity):
    flow = Flow(
        version="1.1.1",
        collection="runs",
        final=FINAL,
        done={State.SUCCEEDED},
        timing={State.PENDING: timedelta(hours=24), State.RUNNING: timedelta(hours=24)},
        moves_with_parts={State.RUNNING},
        agents_set=dict.fromkeys(
            ("phase", "on_failure", "metadata", "max_parallel", "not_before", "starts_automatically"), ANY
        ),
        succession=Succession(children=("workstreams",)),
    )

    state = StateField(State, initial=State.PENDING)
    phase = models.ForeignKey("statecore.Phase", models.PROTECT, related_name="runs")
    on_failure = models.CharField(
        max_length=4, choices=OnFailure.choices, default=OnFailure.WAIT, db_default=OnFailure.WAIT
    )
    # How many of its tasks run at once; 0 for no limit.
    max_parallel = models.PositiveIntegerField(default=0, db_default=0)
    # How many tasks it starts in turn with one of another run of weight 1.
    weight = models.PositiveSmallIntegerField(
        default=1, db_default=1, validators=[MinValueValidator(1), MaxValueValidator(MAX_WEIGHT)]
    )
    not_before = models.DateTimeField(null=True, blank=True)
    # Whether the system starts it when `not_before` has passed.
    starts_automatically = models.BooleanField(default=False, db_default=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("run", "state", State),
            constraints.set_exactly_in("run", "completed_at", FINAL),
            # CANCELED is missing: a run may be canceled before it has started.
            constraints.set_in("run", "started_at", {State.RUNNING, State.SUCCEEDED, State.FAILED}),
            constraints.unset_in("run", "started_at", {State.PENDING}),
            *constraints.in_time_order("run", "created_at", "started_at", "completed_at"),
        )
        indexes = (
            live_by_state("run", FINAL),
            models.Index(
                fields=("not_before",),
                condition=Q(state=State.PENDING, starts_automatically=True),
                name="run_by_start",
            ),
        )

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        workstreams = related(cls, "workstreams")
        current = workstreams.objects.filter(has_no_successor(workstreams), run=OuterRef("pk"))
        open_workstreams = current.filter(is_live(workstreams.flow.done))
        critical_failures = open_workstreams.filter(state=SqlLiteral("failed"), is_critical=True)
        return (
            Invariant(
                "succeeded_runs_have_completed_workstreams",
                "it has succeeded, but one of its workstreams is neither completed nor skipped",
                lambda at: Q(state=State.SUCCEEDED) & has_part(open_workstreams),
            ),
            Invariant(
                "critical_failures_fail_the_run",
                "a critical workstream has failed, but it is still running",
                lambda at: Q(state=State.RUNNING) & has_part(critical_failures),
            ),
        )

    def find_moving_part(self) -> Any:
        """Returns a part that changes without a decision, or None: then nothing does, because the others wait."""
        stopped = related(related(self, "workstreams"), "gates").find_stopped(self.pk)
        for parts, among in ((self.workstreams, Q()), (self.tasks, Q(workstream__state__in=STARTED))):
            current = parts.filter(among, has_no_successor(parts.model)).exclude(state="completed")
            # Without an order: the index of ids would make the database read the whole table.
            if found := current.filter(parts.model.is_moving(stopped)).order_by()[:1]:
                return found[0]
        return None

    def expires_at(self) -> datetime | None:
        return self.not_before if self.state == State.PENDING else None

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state == State.PENDING:
            self.started_at = None
        elif state != State.CANCELED:
            self.started_at = self.started_at or at

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        ran = (self.facts.at - self.started_at).total_seconds() if self.started_at else None
        return {"duration_seconds": ran}

    @transition(
        "run_started",
        source=State.PENDING,
        target=State.RUNNING,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[its_time_has_come],
    )
    def start(self) -> None: ...

    @transition(
        "all_workstreams_completed",
        source=State.RUNNING,
        target=State.SUCCEEDED,
        by={SYSTEM},
        guards=[all_workstreams_are_completed_or_skipped],
    )
    def succeed(self) -> None: ...

    @transition(
        "critical_workstream_failed",
        source=State.RUNNING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[a_critical_workstream_has_failed],
        severity=Severity.ERROR,
    )
    def fail(self) -> None: ...

    @transition(
        "nothing_can_continue",
        source=State.RUNNING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[it_fails_instead_of_waiting, nothing_can_continue],
        severity=Severity.ERROR,
    )
    def fail_without_progress(self) -> None: ...

    @transition("run_canceled", source={State.PENDING, State.RUNNING}, target=State.CANCELED, by={OPERATOR})
    def cancel(self) -> None: ...
