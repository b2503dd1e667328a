"""A workstream: tasks, gates and patches that succeed or fail together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Count, F, OuterRef, Q

from ..framework.declarations import (
    ANY,
    DEFAULT_REPOSITORY,
    OPERATOR,
    REPOSITORY_NAME_LENGTH,
    STATE_LENGTH,
    SYSTEM,
    AtMost,
    Entity,
    Facts,
    Flow,
    GuardFailed,
    Invariant,
    LinkedEntity,
    Rest,
    Severity,
    SqlLiteral,
    StateField,
    Succession,
    TransitionKind,
    Unmet,
    constraints,
    first_outside,
    future_time_error,
    has_linked,
    has_no_successor,
    has_part,
    has_rows,
    live_by_state,
    lost_by_parent,
    open_by_parent,
    related,
    related_column,
    rfc3339,
    transition,
)


class State(models.TextChoices):
    PLANNED = "planned"
    READY = "ready"
    BLOCKED = "blocked"
    EXECUTING = "executing"
    PAUSED = "paused"
    VALIDATING = "validating"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


FINAL = {State.COMPLETED, State.FAILED, State.CANCELLED, State.SKIPPED}
DONE = {State.COMPLETED, State.SKIPPED}
LOST = (State.FAILED, State.CANCELLED)  # never completed, except by a successor
LIVE = set(State) - FINAL
WAITING = {State.PLANNED, State.BLOCKED}  # for dependencies
WORKING = {State.READY, State.EXECUTING}  # its tasks may start
STARTED = WORKING | {State.VALIDATING}
PAUSABLE = {State.READY, State.EXECUTING, State.BLOCKED}
ACCEPTING = WAITING | WORKING | {State.PAUSED}  # new tasks, gates and patches will be processed


def all_its_tasks_are_created(workstream: Workstream, facts: Facts) -> Unmet | None:
    """More tasks than expected are fine: tasks can be added and retried."""
    expected = workstream.expected_tasks
    if expected is None or (created := workstream.tasks.count()) >= expected:
        return None
    return Unmet("tasks_missing", f"{created} of {expected} tasks are created")


def dependencies_are_completed(workstream: Workstream, facts: Facts) -> Unmet | None:
    other = first_outside(workstream, "depends_on", State.COMPLETED)
    return other and Unmet("dependency_unmet", f"workstream {other.id} is {other.state}, not completed", other.id)


def a_dependency_is_not_completed(workstream: Workstream, facts: Facts) -> Unmet | None:
    if first_outside(workstream, "depends_on", State.COMPLETED):
        return None
    return Unmet("no_dependency_open", "every workstream it depends on is completed")


def a_task_has_started(workstream: Workstream, facts: Facts) -> Unmet | None:
    """A successor without tasks counts those of its predecessor, which had completed them all."""
    owner: Any = workstream
    while owner.retry_of and not owner.tasks.exists():
        owner = owner.retry_of
    if owner.tasks.filter(started_at__isnull=False).exists():
        return None
    return Unmet("no_task_started", "none of its tasks has started")


def all_tasks_are_completed(workstream: Workstream, facts: Facts) -> Unmet | None:
    return _open_child(workstream.tasks, "task")


def all_gates_have_passed(workstream: Workstream, facts: Facts) -> Unmet | None:
    return _open_child(workstream.gates.exclude(waived=True), "gate")


def all_patches_are_committed(workstream: Workstream, facts: Facts) -> Unmet | None:
    """Dropped patches do not count."""
    return _open_child(workstream.patches, "patch")


def nothing_it_succeeds_is_in_quarantine(workstream: Workstream, facts: Facts) -> Unmet | None:
    patch = workstream.left_in_quarantine()
    if patch is None:
        return None
    detail = f"patch {patch.pk} of workstream {patch.workstream_id} is quarantined"
    return Unmet("patch_open", detail, patch.pk, patch.flow.entity_type)


def _open_child(children: Any, noun: str) -> Unmet | None:
    """Ignores retried children: their successors count instead."""
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
    """A patch does not count while its task is, or will be, given out again to repair it."""
    live = Q(tasks__state__in=related(workstream, "tasks").flow.live)
    repaired = Q(tasks__repairs__lt=F("tasks__max_repairs")) | (Q(tasks__repairs__gt=0) & ~Q(tasks__state="validating"))
    quarantined = workstream.patches.filter(state="quarantined", successor=None)
    if quarantined.exclude(pk__in=quarantined.filter(live & repaired).values("pk")).exists():
        return None
    return Unmet("no_patch_quarantined", "none of its patches is quarantined")


def a_final_gate_has_failed(workstream: Workstream, facts: Facts) -> Unmet | None:
    if workstream.failed_final_gate() is not None:
        return None
    return Unmet("no_final_gate_failed", "no gate that belongs to it and to none of its tasks has failed")


def its_end_is_in_the_future(workstream: Workstream, facts: Facts) -> Unmet | None:
    return future_time_error("until", facts)


def it_was_ready(workstream: Workstream, facts: Facts) -> Unmet | None:
    return workstream.was_not(State.READY)


def it_was_executing(workstream: Workstream, facts: Facts) -> Unmet | None:
    return workstream.was_not(State.EXECUTING)


def it_was_blocked(workstream: Workstream, facts: Facts) -> Unmet | None:
    return workstream.was_not(State.BLOCKED)


def repairs_are_exhausted(workstream: Workstream, facts: Facts) -> Unmet | None:
    left = workstream.max_repairs - workstream.repairs
    return Unmet("repairs_remain", f"{left} of {workstream.max_repairs} repairs remain") if left > 0 else None


def its_run_is_live(workstream: Workstream, facts: Facts) -> Unmet | None:
    run = workstream.run
    has_ended = run.flow.is_final(run.state)
    return Unmet("run_final", f"run {run.pk} is {run.state}", run.pk, "run") if has_ended else None


class Workstream(LinkedEntity, Entity):
    flow = Flow(
        version="1.4.0",
        collection="workstreams",
        prefix="ws",
        final=FINAL,
        done=DONE,
        timing={
            State.PLANNED: timedelta(hours=24),
            State.READY: timedelta(hours=1),
            State.BLOCKED: Rest("it waits for other workstreams, which have deadlines"),
            State.EXECUTING: timedelta(hours=1),
            State.PAUSED: Rest("an operator paused it"),
            State.VALIDATING: timedelta(hours=1),
        },
        moves_with_parts={State.EXECUTING, State.VALIDATING},
        never_forced={State.PAUSED: "it is paused by workstream_paused, which records where it resumes"},
        event_names={"patch_quarantined": "workstream_failed_quarantine"},
        frozen={"is_critical": (), "repository": ()},
        agents_set=dict.fromkeys(("run", "depends_on", "is_critical", "expected_tasks", "repository", "metadata"), ANY)
        | {"max_repairs": AtMost("STATECORE_AGENT_RETRIES")},
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
    # The number of tasks it waits for before it becomes ready; NULL to wait for none.
    expected_tasks = models.PositiveIntegerField(null=True, blank=True)
    # The name of the repository that its gates test and its patches are committed to.
    repository = models.CharField(
        max_length=REPOSITORY_NAME_LENGTH, default=DEFAULT_REPOSITORY, db_default=DEFAULT_REPOSITORY
    )
    # How often it accepts a task that repairs a failed final gate, and how often it did.
    max_repairs = models.PositiveSmallIntegerField(default=0, db_default=0, validators=[MaxValueValidator(100)])
    repairs = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    # The state in which it resumes, and when it resumes automatically; NULL to wait for an operator.
    paused_from = models.CharField(max_length=STATE_LENGTH, null=True, editable=False)
    paused_until = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("workstream", "state", State),
            constraints.set_exactly_in("workstream", "completed_at", FINAL),
            constraints.set_exactly_in("workstream", "paused_from", {State.PAUSED}),
            *constraints.in_time_order("workstream", "created_at", "updated_at"),
            *constraints.in_time_order("workstream", "updated_at", "completed_at"),
        )
        indexes = (
            live_by_state("workstream", FINAL),
            *(lost_by_parent("workstream", "run", state) for state in LOST),
            open_by_parent("workstream", "run", DONE),
            models.Index(fields=("updated_at",), name="workstream_by_update"),
            # Read by every claim.
            models.Index(fields=("paused_until",), condition=Q(state=State.PAUSED), name="workstream_paused"),
        )

    @classmethod
    def derive_fields(cls, fields: dict[str, Any]) -> None:
        run = _live_parent("run", related(cls, "run"), fields)
        if run is not None:
            fields["phase"] = run.phase_id
            fields["repository"] = run.phase.choose_repository(fields.get("repository"))

    @classmethod
    def fill_run_and_phase(cls, fields: dict[str, Any]) -> None:
        """Sets the run and the phase of a child to those of its workstream."""
        workstream = _live_parent("workstream", cls, fields)
        if workstream is not None:
            fields["run"], fields["phase"] = workstream.run_id, workstream.phase_id

    @classmethod
    def is_moving(cls, stopped_gates: set[str]) -> Q:
        """Whether it changes without a decision and before any of its tasks or another workstream of its run."""
        tasks, gates = related(cls, "tasks"), related(cls, "gates")
        open_tasks = tasks.objects.filter(has_no_successor(tasks), workstream=OuterRef("pk")).exclude(state="completed")
        stopped = gates.objects.filter(pk__in=stopped_gates, workstream=OuterRef("pk"), successor=None)
        reverted = related(cls, "patches").objects.filter(workstream=OuterRef("pk"), state="rolled_back")
        is_stopped = has_part(reverted) | (has_part(stopped) & Q(repairs__gte=F("max_repairs")))
        links = cls.depends_on.through.objects.filter(from_workstream=OuterRef("pk"))
        elsewhere = links.filter(to_workstream__state__in=sorted(LIVE)).exclude(to_workstream__run=OuterRef("run"))
        is_free = ~has_linked(cls, "depends_on", ~Q(state=State.COMPLETED))
        return (
            Q(state__in=(State.PLANNED, State.PAUSED))
            | (Q(state=State.BLOCKED) & (is_free | has_rows(elsewhere)))
            | (Q(state__in=sorted(WORKING)) & ~has_part(open_tasks))
            | (Q(state=State.VALIDATING) & ~has_part(open_tasks) & ~is_stopped)
        )

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        tasks = related(cls, "tasks")
        current = tasks.objects.filter(has_no_successor(tasks), workstream=OuterRef("pk"))
        open_tasks = current.exclude(state=SqlLiteral("completed"))
        critical_failures = open_tasks.filter(state=SqlLiteral("failed"), is_critical=True)
        past_ready = (State.EXECUTING, State.VALIDATING, State.COMPLETED)
        return (
            Invariant(
                "completed_workstreams_have_completed_tasks",
                "it is validating without a repair, or completed, but one of its tasks is not completed",
                lambda at: (Q(state=State.COMPLETED) | Q(state=State.VALIDATING, repairs=0)) & has_part(open_tasks),
            ),
            Invariant(
                "critical_failures_fail_the_workstream",
                "a critical task has failed, but it has not ended",
                lambda at: Q(state__in=LIVE) & has_part(critical_failures),
            ),
            Invariant(
                "workstreams_execute_after_their_dependencies",
                "it has started, but a workstream it depends on is not completed",
                lambda at: Q(state__in=past_ready) & has_linked(cls, "depends_on", ~Q(state=State.COMPLETED)),
            ),
            Invariant(
                "workstreams_belong_to_their_run",
                "its phase differs from that of its run",
                lambda at: ~Q(phase=related_column(cls, "run", "phase")),
            ),
        )

    def failed_final_gate(self) -> str | None:
        """Returns the id of a gate that failed for good and belongs to it and to none of its tasks."""
        failed = self.gates.filter(state="FAILED", waived=False, successor=None, reruns__gte=F("max_reruns"))
        of_no_task = failed.exclude(exit_of__workstream=self).exclude(entry_of__workstream=self)
        found: str | None = of_no_task.order_by("pk").values_list("pk", flat=True).first()
        return found

    def awaits_repair(self) -> bool:
        """Whether a final gate has failed and it accepts a task that repairs it."""
        is_open = self.state == State.VALIDATING and self.repairs < self.max_repairs
        return is_open and self.failed_final_gate() is not None

    def left_in_quarantine(self) -> Any:
        """Returns a quarantined patch of a predecessor that this workstream would otherwise complete without.

        Patches of retried tasks do not count: the new task replaces them.
        """
        predecessor: Any = self.retry_of
        while predecessor is not None:
            quarantined = predecessor.patches.filter(state="quarantined", successor=None)
            if found := quarantined.exclude(tasks__successor__isnull=False).order_by("pk").first():
                return found
            predecessor = predecessor.retry_of
        return None

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state != State.PAUSED:
            self.paused_from = self.paused_until = None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
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
            **self._waived_gates(trigger),
            **self._quarantined_patches(trigger),
            **({"blocked_by": self._open_dependencies()} if self.state == State.BLOCKED else {}),
            **({"paused_until": rfc3339(self.paused_until)} if self.paused_until else {}),
        }

    def was_not(self, state: str) -> Unmet | None:
        """Returns why it does not resume in this state, or None."""
        return None if self.paused_from == state else Unmet("paused_elsewhere", f"it was paused in {self.paused_from}")

    def _open_dependencies(self) -> list[str]:
        open_ones = self.depends_on.exclude(state=State.COMPLETED)
        return list(open_ones.order_by("pk").values_list("pk", flat=True))

    def _waived_gates(self, trigger: str) -> dict[str, Any]:
        """Returns the gates without which it completed."""
        if trigger != "validation_passed":
            return {}
        waived = self.gates.filter(waived=True).order_by("pk").values_list("pk", flat=True)
        return {"waived_gates": list(waived)} if waived else {}

    def _quarantined_patches(self, trigger: str) -> dict[str, Any]:
        if trigger != "patch_quarantined":
            return {}
        quarantined = self.patches.filter(state="quarantined", successor=None)
        return {"quarantined_patches": list(quarantined.order_by("pk").values_list("pk", flat=True))}

    @transition(
        "tasks_created",
        source=State.PLANNED,
        target=State.READY,
        by={SYSTEM},
        guards=[all_its_tasks_are_created, dependencies_are_completed],
    )
    def make_ready(self) -> None: ...

    @transition(
        "dependency_unsatisfied",
        source=State.PLANNED,
        target=State.BLOCKED,
        by={SYSTEM},
        guards=[a_dependency_is_not_completed],
    )
    def block(self) -> None: ...

    @transition(
        "dependencies_met", source=State.BLOCKED, target=State.READY, by={SYSTEM}, guards=[dependencies_are_completed]
    )
    def unblock(self) -> None: ...

    @transition(
        "first_task_started", source=State.READY, target=State.EXECUTING, by={SYSTEM}, guards=[a_task_has_started]
    )
    def execute(self) -> None: ...

    @transition(
        "all_tasks_completed",
        source=State.EXECUTING,
        target=State.VALIDATING,
        by={SYSTEM},
        guards=[all_tasks_are_completed],
    )
    def validate(self) -> None: ...

    @transition(
        "critical_task_failed",
        source=LIVE,
        target=State.FAILED,
        by={SYSTEM},
        guards=[a_critical_task_has_failed],
        severity=Severity.CRITICAL,
    )
    def fail_with_task(self) -> None:
        self.last_error = "a critical task failed"

    @transition(
        "patch_quarantined",
        source=LIVE,
        target=State.FAILED,
        by={SYSTEM},
        kind=TransitionKind.PROPAGATED,
        guards=[a_patch_is_quarantined],
        severity=Severity.ERROR,
    )
    def fail_with_patch(self) -> None:
        self.last_error = "a patch was quarantined"

    @transition(
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

    @transition(
        "validation_failed",
        source=State.VALIDATING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[a_final_gate_has_failed, repairs_are_exhausted],
        severity=Severity.ERROR,
    )
    def fail_validation(self, error: str = "") -> None:
        self.last_error = error or f"gate {self.failed_final_gate()} failed"

    @transition("workstream_skipped", source={State.PLANNED, State.READY}, target=State.SKIPPED, by={OPERATOR})
    def skip(self) -> None: ...

    @transition(
        "workstream_cancelled",
        source={State.PLANNED, State.READY, State.EXECUTING, State.PAUSED},
        target=State.CANCELLED,
        by={OPERATOR},
    )
    def cancel(self) -> None: ...

    @transition(
        "workstream_paused",
        source=PAUSABLE,
        target=State.PAUSED,
        by={OPERATOR},
        guards=[its_end_is_in_the_future],
    )
    def pause(self, until: str | None = None) -> None:
        self.paused_from = self.state
        self.paused_until = datetime.fromisoformat(until) if until else None

    @transition(
        "workstream_resumed",
        source=State.PAUSED,
        target=State.READY,
        by={OPERATOR, SYSTEM},
        guards=[it_was_ready],
    )
    def resume(self) -> None: ...

    @transition(
        "workstream_resumed",
        source=State.PAUSED,
        target=State.EXECUTING,
        by={OPERATOR, SYSTEM},
        guards=[it_was_executing],
    )
    def resume_execution(self) -> None: ...

    @transition(
        "workstream_resumed",
        source=State.PAUSED,
        target=State.BLOCKED,
        by={OPERATOR, SYSTEM},
        guards=[it_was_blocked],
    )
    def resume_waiting(self) -> None: ...

    @transition("cascade_cancelled", source=LIVE, target=State.CANCELLED, by={SYSTEM}, kind=TransitionKind.PROPAGATED)
    def cancel_with_parent(self) -> None: ...


def _live_parent(name: str, model: Any, fields: dict[str, Any]) -> Any:
    """Returns the parent of a new entity; None if it does not exist, which validation reports."""
    given = fields.get(name)
    parent: Any = given if isinstance(given, models.Model) else model.objects.filter(pk=given).first()
    if parent is not None and parent.flow.is_final(parent.state):
        raise GuardFailed("created", [Unmet("parent_final", f"{parent} is {parent.state}", parent.pk)])
    return parent
