"""A workstream: tasks, gates and patches that succeed or fail together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Count, OuterRef, Q

from ..kernel import constraints
from ..kernel.actors import OPERATOR, SYSTEM
from ..kernel.entity import Entity
from ..kernel.fields import related
from ..kernel.flow import Flow, Rest, Succession
from ..kernel.how_many import HowMany, how_many_linked, of_its, without_successor
from ..kernel.indexes import Literal, live_by_state, lost_by_parent, open_by_parent
from ..kernel.invariant import Invariant
from ..kernel.links import first_outside
from ..kernel.moves import Facts, MoveKind, Severity, move
from ..kernel.refusals import GuardFailed, Unmet
from ..kernel.state_field import StateField


class State(models.TextChoices):
    PLANNED = "planned"
    READY = "ready"
    BLOCKED = "blocked"
    EXECUTING = "executing"
    VALIDATING = "validating"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


FINAL = {State.COMPLETED, State.FAILED, State.CANCELLED, State.SKIPPED}
DONE = {State.COMPLETED, State.SKIPPED}
LOST = (State.FAILED, State.CANCELLED)  # it will never be completed, but a successor may
LIVE = set(State) - FINAL
WAITING = {State.PLANNED, State.BLOCKED}  # for what is to come before it
WORKING = {State.READY, State.EXECUTING}  # its tasks may start
TAKING = WAITING | WORKING  # what is added to it will have its turn


def all_its_tasks_are_created(workstream: Workstream, facts: Facts) -> Unmet | None:
    """More than were planned are no reason to wait: some may have been added, or retried."""
    expected = workstream.expected_tasks
    if expected is None or (there := workstream.tasks.count()) >= expected:
        return None
    return Unmet("tasks_missing", f"{there} of {expected} tasks are created")


def dependencies_are_completed(workstream: Workstream, facts: Facts) -> Unmet | None:
    waiting = first_outside(workstream, "depends_on", State.COMPLETED)
    return waiting and Unmet("dependency_unmet", f"workstream {waiting[0]} is {waiting[1]}", waiting[0])


def a_dependency_is_not_completed(workstream: Workstream, facts: Facts) -> Unmet | None:
    if first_outside(workstream, "depends_on", State.COMPLETED):
        return None
    return Unmet("no_dependency_open", "every workstream it depends on is completed")


def a_task_has_started(workstream: Workstream, facts: Facts) -> Unmet | None:
    """One of its own; of what it succeeds, where that had completed them all."""
    begun: Any = workstream
    while begun.retry_of and not begun.tasks.exists():
        begun = begun.retry_of
    if begun.tasks.filter(started_at__isnull=False).exists():
        return None
    return Unmet("no_task_started", "none of its tasks has started")


def all_tasks_are_completed(workstream: Workstream, facts: Facts) -> Unmet | None:
    return _undone_child(workstream.tasks, "task")


def all_gates_have_passed(workstream: Workstream, facts: Facts) -> Unmet | None:
    return _undone_child(workstream.gates, "gate")


def all_patches_are_committed(workstream: Workstream, facts: Facts) -> Unmet | None:
    """A dropped patch does not count."""
    return _undone_child(workstream.patches, "patch")


def nothing_it_succeeds_is_in_quarantine(workstream: Workstream, facts: Facts) -> Unmet | None:
    left = workstream.left_in_quarantine()
    if left is None:
        return None
    said = f"patch {left.pk} of workstream {left.workstream_id} is quarantined"
    return Unmet("patch_open", said, left.pk, left.flow.entity_type)


def _undone_child(children: Any, noun: str) -> Unmet | None:
    """What was retried is answered for by its successor."""
    other = (
        children.filter(successor=None)
        .exclude(state__in=sorted(children.model.flow.done))
        .values_list("pk", "state")
        .first()
    )
    kind = children.model.flow.entity_type
    return other and Unmet(f"{noun}_open", f"{noun} {other[0]} is {other[1]}", other[0], kind)


def a_critical_task_has_failed(workstream: Workstream, facts: Facts) -> Unmet | None:
    if workstream.tasks.filter(is_critical=True, state="failed", successor=None).exists():
        return None
    return Unmet("no_critical_failure", "no critical task has failed")


def a_patch_is_quarantined(workstream: Workstream, facts: Facts) -> Unmet | None:
    if workstream.patches.filter(state="quarantined", successor=None).exists():
        return None
    return Unmet("no_patch_quarantined", "none of its patches is quarantined")


def its_run_is_live(workstream: Workstream, facts: Facts) -> Unmet | None:
    run = workstream.run
    is_over = run.flow.is_final(run.state)
    return Unmet("run_final", f"run {run.pk} is {run.state}", run.pk, "run") if is_over else None


class Workstream(Entity):
    flow = Flow(
        version="1.0.1",
        collection="workstreams",
        prefix="ws",
        final=FINAL,
        done=DONE,
        timing={
            State.PLANNED: timedelta(hours=24),
            State.READY: timedelta(hours=1),
            State.BLOCKED: Rest("it waits for workstreams that have deadlines of their own"),
            State.EXECUTING: timedelta(hours=1),
            State.VALIDATING: timedelta(hours=1),
        },
        frozen={"is_critical": ()},
        succession=Succession(
            leaves_behind=("expected_tasks",),
            guards=(its_run_is_live,),
            children=("gates", "tasks"),
            waits_in={"depends_on": WAITING},
        ),
    )

    state = StateField(State, initial=State.PLANNED)
    run = models.ForeignKey("statecore.Run", models.PROTECT, related_name="workstreams")
    phase = models.ForeignKey("statecore.Phase", models.PROTECT, related_name="+", editable=False)
    depends_on = models.ManyToManyField("self", symmetrical=False, related_name="dependents", blank=True)
    is_critical = models.BooleanField(default=False)
    # How many tasks the plan gives it; without a number it is ready as soon as it has been planned.
    expected_tasks = models.PositiveIntegerField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("workstream", "state", State),
            constraints.set_exactly_in("workstream", "completed_at", FINAL),
            *constraints.in_time_order("workstream", "created_at", "updated_at"),
            *constraints.in_time_order("workstream", "updated_at", "completed_at"),
        )
        indexes = (
            live_by_state("workstream", FINAL),
            *(lost_by_parent("workstream", "run", state) for state in LOST),
            open_by_parent("workstream", "run", DONE),
            models.Index(fields=("updated_at",), name="workstream_by_update"),
        )

    @classmethod
    def complete(cls, fields: dict[str, Any]) -> None:
        run = _live_parent("run", related(cls, "run"), fields)
        if run is not None:
            fields["phase"] = run.phase_id

    @classmethod
    def hand_down(cls, fields: dict[str, Any]) -> None:
        """Give a child of a workstream the run and the phase it belongs to."""
        workstream = _live_parent("workstream", cls, fields)
        if workstream is not None:
            fields["run"], fields["phase"] = workstream.run_id, workstream.phase_id

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        tasks = related(cls, "tasks")
        unanswered = without_successor(tasks.objects.filter(workstream=OuterRef("pk")).values("pk"))
        open_tasks = HowMany(unanswered.exclude(state=Literal("completed")))
        critical_failures = HowMany(unanswered.filter(state=Literal("failed"), is_critical=True))
        past_ready = (State.EXECUTING, State.VALIDATING, State.COMPLETED)
        return (
            Invariant(
                "completed_workstreams_have_completed_tasks",
                "it is past executing, and one of its tasks is not completed",
                lambda at: cls.objects.alias(open_tasks=open_tasks).filter(
                    state__in=(State.VALIDATING, State.COMPLETED), open_tasks__gt=0
                ),
            ),
            Invariant(
                "critical_failures_fail_the_workstream",
                "a critical task has failed, and it goes on",
                lambda at: cls.objects.alias(failures=critical_failures).filter(state__in=LIVE, failures__gt=0),
            ),
            Invariant(
                "workstreams_execute_after_their_dependencies",
                "it has started, and a workstream it depends on is not completed",
                lambda at: cls.objects.alias(
                    missing=how_many_linked(cls, "depends_on", ~Q(state=State.COMPLETED))
                ).filter(state__in=past_ready, missing__gt=0),
            ),
            Invariant(
                "workstreams_belong_to_their_run",
                "its phase is not that of its run",
                lambda at: cls.objects.exclude(phase=of_its(cls, "run", "phase")),
            ),
        )

    def left_in_quarantine(self) -> Any:
        """A patch of one that it succeeds, which it would complete without. A task done again answers for its own."""
        older: Any = self.retry_of
        while older is not None:
            standing = older.patches.filter(state="quarantined", successor=None)
            if found := standing.exclude(tasks__successor__isnull=False).order_by("pk").first():
                return found
            older = older.retry_of
        return None

    def settle(self, at: datetime, reason: str) -> None:
        self.completed_at = at if self.state in FINAL else None

    def journal_facts(self, trigger: str) -> dict[str, Any]:
        counts = self.tasks.aggregate(
            total_tasks=Count("pk"),
            completed_tasks=Count("pk", filter=Q(state="completed")),
            failed_tasks=Count("pk", filter=Q(state="failed")),
        )
        age = (self.facts.at - self.created_at).total_seconds()
        return {
            **counts,
            "duration_seconds": age,
            "critical_failure": trigger == "critical_task_failed",
        }

    @move(
        "tasks_created",
        source=State.PLANNED,
        target=State.READY,
        by={SYSTEM},
        guards=[all_its_tasks_are_created, dependencies_are_completed],
    )
    def make_ready(self) -> None: ...

    @move(
        "dependency_unsatisfied",
        source=State.PLANNED,
        target=State.BLOCKED,
        by={SYSTEM},
        guards=[a_dependency_is_not_completed],
    )
    def block(self) -> None: ...

    @move(
        "dependencies_met", source=State.BLOCKED, target=State.READY, by={SYSTEM}, guards=[dependencies_are_completed]
    )
    def unblock(self) -> None: ...

    @move("first_task_started", source=State.READY, target=State.EXECUTING, by={SYSTEM}, guards=[a_task_has_started])
    def execute(self) -> None: ...

    @move(
        "all_tasks_completed",
        source=State.EXECUTING,
        target=State.VALIDATING,
        by={SYSTEM},
        guards=[all_tasks_are_completed],
    )
    def validate(self) -> None: ...

    @move(
        "critical_task_failed",
        source=State.EXECUTING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[a_critical_task_has_failed],
        severity=Severity.CRITICAL,
    )
    def fail_with_task(self) -> None:
        self.last_error = "a critical task failed"

    @move(
        "patch_quarantined",
        source={State.EXECUTING, State.VALIDATING},
        target=State.FAILED,
        by={SYSTEM},
        kind=MoveKind.PROPAGATED,
        guards=[a_patch_is_quarantined],
        severity=Severity.ERROR,
    )
    def fail_with_patch(self) -> None:
        self.last_error = "a patch was quarantined"

    @move(
        "validation_passed",
        source=State.VALIDATING,
        target=State.COMPLETED,
        by={SYSTEM},
        guards=[
            all_tasks_are_completed,
            all_gates_have_passed,
            all_patches_are_committed,
            nothing_it_succeeds_is_in_quarantine,
        ],
    )
    def pass_validation(self) -> None: ...

    @move("validation_failed", source=State.VALIDATING, target=State.FAILED, by={SYSTEM}, severity=Severity.ERROR)
    def fail_validation(self, error: str) -> None:
        self.last_error = error

    @move("workstream_skipped", source={State.PLANNED, State.READY}, target=State.SKIPPED, by={OPERATOR})
    def skip(self) -> None: ...

    @move(
        "workstream_cancelled",
        source={State.PLANNED, State.READY, State.EXECUTING},
        target=State.CANCELLED,
        by={OPERATOR},
    )
    def cancel(self) -> None: ...

    @move("cascade_cancelled", source=LIVE, target=State.CANCELLED, by={SYSTEM}, kind=MoveKind.PROPAGATED)
    def cancel_with_parent(self) -> None: ...


def _live_parent(name: str, model: Any, fields: dict[str, Any]) -> Any:
    """The row a child is to be created in; None where there is none to be found, which validation will say."""
    given = fields.get(name)
    parent: Any = given if isinstance(given, models.Model) else model.objects.filter(pk=given).first()
    if parent is not None and parent.flow.is_final(parent.state):
        raise GuardFailed("created", [Unmet("parent_final", f"{parent} is {parent.state}", parent.pk)])
    return parent
