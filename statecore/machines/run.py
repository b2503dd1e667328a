"""A run: one execution of a plan, succeeded or failed by its workstreams."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import OuterRef

from ..kernel import constraints
from ..kernel.actors import AGENT, OPERATOR, SYSTEM
from ..kernel.entity import Entity
from ..kernel.fields import related
from ..kernel.flow import Flow, Succession
from ..kernel.how_many import HowMany, without_successor
from ..kernel.indexes import Literal, is_live, live_by_state
from ..kernel.invariant import Invariant
from ..kernel.moves import Facts, Severity, move
from ..kernel.refusals import Unmet
from ..kernel.state_field import StateField


class State(models.TextChoices):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


FINAL = {State.SUCCEEDED, State.FAILED, State.CANCELED}


def all_workstreams_are_completed_or_skipped(run: Run, facts: Facts) -> Unmet | None:
    counting = run.workstreams.filter(successor=None)  # what was retried is answered for by its successor
    open_one = counting.exclude(state__in=("completed", "skipped")).values_list("pk", "state").first()
    return open_one and Unmet(
        "workstream_open", f"workstream {open_one[0]} is {open_one[1]}", open_one[0], "workstream"
    )


def a_critical_workstream_has_failed(run: Run, facts: Facts) -> Unmet | None:
    if run.workstreams.filter(is_critical=True, state="failed", successor=None).exists():
        return None
    return Unmet("no_critical_failure", "no critical workstream has failed")


class Run(Entity):
    flow = Flow(
        version="1.0.0",
        collection="runs",
        final=FINAL,
        done={State.SUCCEEDED},
        timing={State.PENDING: timedelta(hours=24), State.RUNNING: timedelta(hours=24)},
        succession=Succession(children=("workstreams",)),
    )

    state = StateField(State, initial=State.PENDING)
    phase = models.ForeignKey("statecore.Phase", models.PROTECT, related_name="runs")
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("run", "state", State),
            constraints.set_exactly_in("run", "completed_at", FINAL),
            # A run that was canceled before it started has no start.
            constraints.set_in("run", "started_at", {State.RUNNING, State.SUCCEEDED, State.FAILED}),
            constraints.unset_in("run", "started_at", {State.PENDING}),
            *constraints.in_time_order("run", "created_at", "started_at", "completed_at"),
        )
        indexes = (live_by_state("run", FINAL),)

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        workstreams = related(cls, "workstreams")
        unanswered = without_successor(workstreams.objects.filter(run=OuterRef("pk")).values("pk"))
        open_workstreams = HowMany(unanswered.filter(is_live(workstreams.flow.done)))
        critical_failures = HowMany(unanswered.filter(state=Literal("failed"), is_critical=True))
        return (
            Invariant(
                "succeeded_runs_have_completed_workstreams",
                "it has succeeded, and one of its workstreams is neither completed nor skipped",
                lambda at: cls.objects.alias(open=open_workstreams).filter(state=State.SUCCEEDED, open__gt=0),
            ),
            Invariant(
                "critical_failures_fail_the_run",
                "a critical workstream has failed, and it goes on",
                lambda at: cls.objects.alias(failures=critical_failures).filter(state=State.RUNNING, failures__gt=0),
            ),
        )

    def settle(self, at: datetime, reason: str) -> None:
        self.completed_at = at if self.state in FINAL else None
        if self.state == State.PENDING:
            self.started_at = None
        elif self.state != State.CANCELED:
            self.started_at = self.started_at or at

    def journal_facts(self, trigger: str) -> dict[str, Any]:
        ran = (self.facts.at - self.started_at).total_seconds() if self.started_at else None
        return {"duration_seconds": ran}

    @move("run_started", source=State.PENDING, target=State.RUNNING, by={AGENT, OPERATOR, SYSTEM})
    def start(self) -> None: ...

    @move(
        "all_workstreams_completed",
        source=State.RUNNING,
        target=State.SUCCEEDED,
        by={SYSTEM},
        guards=[all_workstreams_are_completed_or_skipped],
    )
    def succeed(self) -> None: ...

    @move(
        "critical_workstream_failed",
        source=State.RUNNING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[a_critical_workstream_has_failed],
        severity=Severity.ERROR,
    )
    def fail(self) -> None: ...

    @move("run_canceled", source={State.PENDING, State.RUNNING}, target=State.CANCELED, by={OPERATOR})
    def cancel(self) -> None: ...
