"""A task: the unit of work an agent claims, runs and reports on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, OuterRef, Q
from django.db.models.lookups import Exact, GreaterThan

from ..framework.declarations import (
    ACTOR_NAME_LENGTH,
    AGENT,
    ANY,
    ID_LENGTH,
    OPERATOR,
    SYSTEM,
    AtMost,
    BytesAtMost,
    Facts,
    Flow,
    HeartbeatEntity,
    Hold,
    IdField,
    Invariant,
    Linked,
    LinkedEntity,
    Rest,
    Severity,
    SqlLiteral,
    StateField,
    Succession,
    TransitionKind,
    Unmet,
    all_inside,
    all_outside,
    cached_for_batch,
    clock,
    constraints,
    first_outside,
    format_utc,
    has_linked,
    has_rows,
    live_by_state,
    lost_by_parent,
    related,
    related_column,
    select_active,
    the_attempt_is_current,
    transition,
    validate_exit_codes,
    validate_tool,
    validate_word_list,
)


class State(models.TextChoices):
    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    VALIDATING = "validating"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRYING = "retrying"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"


FINAL = {State.COMPLETED, State.FAILED, State.CANCELLED}
LOST = (State.FAILED, State.CANCELLED)  # never completed, except by a successor
VERIFIED = {"verified", "committed"}  # states of its patch in which it may complete
LIVE = set(State) - FINAL
UNDER_WAY = (State.QUEUED, State.RUNNING, State.VALIDATING, State.RETRYING)
WAITING = {State.PENDING, State.BLOCKED}  # for dependencies or entry gates
ACTIVE = {State.QUEUED, State.RUNNING, State.RETRYING}  # they continue whatever happens to others
UNCLAIMED = WAITING | {State.QUEUED, State.RETRYING}
HEARTBEAT_SECONDS = 60
# How late a heartbeat may be, as a multiple of `heartbeat_sec`: one that is on its way counts.
HEARTBEAT_GRACE = 1.25
# The agent's reports that end a run. Any other trigger that ends it sends the agent a stop command.
REPORTS = {"execution_completed", "execution_failed"}


def zero_only() -> list[int]:
    return [0]


def dependencies_are_completed(task: Task, facts: Facts) -> Unmet | None:
    other = first_outside(task, "depends_on", State.COMPLETED)
    return other and Unmet("dependency_unmet", f"task {other.id} is {other.state}, not completed", other.id)


def entry_gates_have_passed(task: Task, facts: Facts) -> Unmet | None:
    return _unpassed_gate(task, "entry_gates")


def exit_gates_have_passed(task: Task, facts: Facts) -> Unmet | None:
    return _unpassed_gate(task, "gates")


def _unpassed_gate(task: Task, link: str) -> Unmet | None:
    gate = first_outside(task, link, "PASSED")
    return gate and Unmet("gate_not_passed", f"gate {gate.id} is {gate.state}, not PASSED", gate.id, "test_gate")


def something_blocks_it(task: Task, facts: Facts) -> Unmet | None:
    return None if task.blockers() else Unmet("nothing_blocks", "no dependency and no gate blocks this task")


def nothing_blocks_it(task: Task, facts: Facts) -> Unmet | None:
    blockers = task.blockers()
    return Unmet("still_blocked", f"still blocked by {', '.join(blockers)}", blockers[0]) if blockers else None


def a_gate_has_failed(task: Task, facts: Facts) -> Unmet | None:
    return None if task.failed_gates() else Unmet("no_gate_failed", "none of its gates has failed")


def the_worker_takes_it(task: Task, facts: Facts) -> Unmet | None:
    worker_id = facts.params["worker"]
    workers = related(task, "worker").objects
    worker = cached_for_batch(task, ("worker", worker_id), lambda _ids: workers.filter(pk=worker_id).first())
    if worker is None:
        return Unmet("no_such_worker", f"worker {worker_id} does not exist", worker_id, "worker")
    reason = worker.reason_to_refuse_actor(facts.actor)
    reason = reason or worker.reason_to_refuse_task(task.workstream_id, task.required_capabilities)
    return reason and Unmet("worker_unsuitable", f"worker {worker_id} {reason}", worker_id, "worker")


def no_hold_covers_it(task: Task, facts: Facts) -> Unmet | None:
    hold = task.find_hold(facts.at)
    return Unmet("held", hold.describe()) if hold else None


def its_workstream_is_not_paused(task: Task, facts: Facts) -> Unmet | None:
    workstream = task.workstream
    if workstream.state != "paused":
        return None
    return Unmet("workstream_paused", f"workstream {workstream.pk} is paused", workstream.pk, "workstream")


def its_run_has_room(task: Task, facts: Facts) -> Unmet | None:
    run = task.run
    if not run.max_parallel:
        return None
    running = cached_for_batch(task, ("running", run.pk), lambda _ids: count_running(run.pk))
    if running < run.max_parallel:
        return None
    detail = f"run {run.pk}: {running} of {run.max_parallel} tasks run at once"
    return Unmet("run_is_full", detail, run.pk, "run")


def count_running(run_id: str) -> int:
    return int(Task.objects.filter(run=run_id, state=SqlLiteral(State.RUNNING)).count())


def its_time_has_come(task: Task, facts: Facts) -> Unmet | None:
    if task.not_before is None or facts.at >= task.not_before:
        return None
    return Unmet("too_early", f"waits until {format_utc(task.not_before)}")


def the_exit_code_is_expected(task: Task, facts: Facts) -> Unmet | None:
    code = facts.params["exit_code"]
    if code in task.expected_exit_codes:
        return None
    return Unmet("exit_code", f"exit code {code} is not one of {task.expected_exit_codes}: report execution_failed")


def retries_remain(task: Task, facts: Facts) -> Unmet | None:
    if not facts.params.get("retry", True):
        return Unmet("retry_not_wanted", "the agent reports that another attempt would fail as well")
    if task.retry_count < task.max_retries:
        return None
    return Unmet("retries_exhausted", f"all {task.max_retries} retries are used")


def retries_are_exhausted(task: Task, facts: Facts) -> Unmet | None:
    if not facts.params.get("retry", True):
        return None
    left = task.max_retries - task.retry_count
    return Unmet("retries_remain", f"{left} of {task.max_retries} retries remain") if left > 0 else None


def repairs_remain(task: Task, facts: Facts) -> Unmet | None:
    if task.repairs < task.max_repairs:
        return None
    return Unmet("repairs_exhausted", f"all {task.max_repairs} repairs are used")


def its_work_was_rejected(task: Task, facts: Facts) -> Unmet | None:
    if task.rejection() is not None:
        return None
    return Unmet("not_rejected", "neither its patch is quarantined nor is a failed exit gate to be run again")


def the_timeout_has_passed(task: Task, facts: Facts) -> Unmet | None:
    until = task.times_out_at()
    return Unmet("not_timed_out", f"it times out at {format_utc(until)}") if facts.at < until else None


def the_backoff_has_passed(task: Task, facts: Facts) -> Unmet | None:
    if task.retry_at is None or facts.at >= task.retry_at:
        return None
    return Unmet("backing_off", f"the next attempt is due at {format_utc(task.retry_at)}")


def its_run_fails_instead_of_waiting(task: Task, facts: Facts) -> Unmet | None:
    if task.run.on_failure == "fail":
        return None
    return Unmet("waits_for_decisions", f"run {task.run_id} waits for a decision", task.run_id, "run")


def its_dependency_timeout_has_passed(task: Task, facts: Facts) -> Unmet | None:
    due = task.dependency_due_at
    if due is not None and facts.at >= due:
        return None
    until = f"it waits until {format_utc(due)}" if due else "it waits without a limit"
    return Unmet("not_timed_out", until)


def the_patch_is_verified(task: Task, facts: Facts) -> Unmet | None:
    if task.patch is None or task.patch.state in VERIFIED:
        return None
    return Unmet("patch_not_verified", f"patch {task.patch_id} is {task.patch.state}", task.patch_id, "patch_ledger")


def its_workstream_is_live(task: Task, facts: Facts) -> Unmet | None:
    workstream = task.workstream
    if not workstream.flow.is_final(workstream.state):
        return None
    return Unmet("workstream_final", f"workstream {workstream.pk} is {workstream.state}", workstream.pk, "workstream")


class Task(LinkedEntity, HeartbeatEntity):
    flow = Flow(
        version="1.5.1",
        collection="tasks",
        final=FINAL,
        done={State.COMPLETED},
        timing={
            State.PENDING: timedelta(minutes=10),
            State.QUEUED: timedelta(minutes=10),
            State.RUNNING: timedelta(minutes=30),
            State.VALIDATING: timedelta(minutes=30),
            State.RETRYING: timedelta(minutes=20),
            State.BLOCKED: Rest("it waits for tasks and gates, which have deadlines"),
        },
        frozen={"is_critical": ()},
        free_in={State.PENDING, State.QUEUED, State.RETRYING},
        renewed_in={State.RUNNING},
        agents_set={
            **dict.fromkeys(("workstream", "depends_on", "gates", "entry_gates", "is_critical", "priority"), ANY),
            **dict.fromkeys(("required_capabilities", "expected_exit_codes", "tool", "not_before", "metadata"), ANY),
            "payload": BytesAtMost("STATECORE_AGENT_PAYLOAD_BYTES"),
            "timeout_sec": AtMost("STATECORE_AGENT_TIMEOUT_SECONDS"),
            "heartbeat_sec": AtMost("STATECORE_AGENT_TIMEOUT_SECONDS"),
            "dependency_timeout_sec": ANY,
            "progress_timeout_sec": AtMost("STATECORE_AGENT_TIMEOUT_SECONDS"),
            "max_retries": AtMost("STATECORE_AGENT_RETRIES"),
            "max_repairs": AtMost("STATECORE_AGENT_RETRIES"),
        },
        retry_counter="retry_count",
        monotonic=("repairs",),
        succession=Succession(
            guards=(its_workstream_is_live,),
            waits_in={"depends_on": WAITING, "entry_gates": WAITING},
        ),
    )

    volatile = (*HeartbeatEntity.volatile, "blocked_by", "progress_due_at")
    detail_only = frozenset({"result"})
    state = StateField(State, initial=State.PENDING)
    workstream = models.ForeignKey("statecore.Workstream", models.PROTECT, related_name="tasks")
    # Copied from the workstream, so that events and lists can be filtered without a join.
    run = models.ForeignKey("statecore.Run", models.PROTECT, related_name="tasks", editable=False)
    # Every transition writes all indexes, so these three have none or one without nulls. Phases are not deleted.
    phase = models.ForeignKey("statecore.Phase", models.PROTECT, related_name="+", editable=False, db_index=False)
    worker = models.ForeignKey(
        "statecore.Worker", models.PROTECT, null=True, editable=False, related_name="tasks", db_index=False
    )
    patch = models.ForeignKey(
        "statecore.PatchLedger", models.PROTECT, null=True, blank=True, related_name="tasks", db_index=False
    )
    # The name of the agent that runs it, which holds it.
    # The worker of the last attempt, kept when the task has left it.
    last_worker = models.CharField(max_length=ID_LENGTH, default="", db_default="", editable=False)
    claimed_by = models.CharField(max_length=ACTOR_NAME_LENGTH, default="", editable=False)
    depends_on = models.ManyToManyField("self", symmetrical=False, related_name="dependents", blank=True)
    gates = models.ManyToManyField("statecore.TestGate", related_name="exit_of", blank=True)
    entry_gates = models.ManyToManyField("statecore.TestGate", related_name="entry_of", blank=True)
    is_critical = models.BooleanField(default=False)
    priority = models.SmallIntegerField(default=0)
    required_capabilities = models.JSONField(default=list, blank=True, validators=[validate_word_list])
    # The id of the tool that its worker calls.
    tool = IdField(max_length=ID_LENGTH, default="", db_default="", blank=True, validators=[validate_tool])
    expected_exit_codes = models.JSONField(default=zero_only, validators=[validate_exit_codes])
    payload = models.JSONField(default=dict, blank=True)
    # It is not queued earlier.
    not_before = models.DateTimeField(null=True, blank=True)
    timeout_sec = models.PositiveIntegerField(default=1800, validators=[MinValueValidator(1)])
    # The agent sends heartbeats at least this often; the task is taken from it a quarter of that time later.
    heartbeat_sec = models.PositiveIntegerField(
        default=HEARTBEAT_SECONDS, db_default=HEARTBEAT_SECONDS, validators=[MinValueValidator(1)]
    )
    # How long it may be blocked, and until when it is; NULL for no limit.
    dependency_timeout_sec = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    dependency_due_at = models.DateTimeField(null=True, editable=False)
    # How long its progress may stay the same; 0 for the limit of the installation, which counts from the first report.
    progress_timeout_sec = models.PositiveIntegerField(default=0, db_default=0)
    # When its progress must have changed. Only the list of stuck tasks depends on it.
    progress_due_at = models.DateTimeField(null=True, editable=False)
    max_retries = models.PositiveSmallIntegerField(default=3, validators=[MaxValueValidator(100)])
    retry_count = models.PositiveSmallIntegerField(default=0, editable=False)
    # How often it is given out again after its patch or an exit gate has rejected its work, and how often it was.
    max_repairs = models.PositiveSmallIntegerField(default=0, db_default=0, validators=[MaxValueValidator(100)])
    repairs = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    lease_expires_at = models.DateTimeField(null=True, editable=False)
    blocked_by = models.JSONField(default=list, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    cancelled_at = models.DateTimeField(null=True, editable=False)
    exit_code = models.IntegerField(null=True, editable=False)
    output = models.TextField(default="", editable=False)
    # What it hands to the tasks that depend on it: any JSON.
    result = models.JSONField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("task", "state", State),
            constraints.set_exactly_in("task", "worker", {State.RUNNING}),
            constraints.set_exactly_in("task", "completed_at", FINAL),
            constraints.set_exactly_in("task", "cancelled_at", {State.CANCELLED}),
            constraints.set_in("task", "started_at", {State.RUNNING}),
            constraints.at_most("task", "retry_count", "max_retries"),
            *constraints.in_time_order("task", "created_at", "started_at", "completed_at"),
        )
        indexes = (
            live_by_state("task", FINAL),
            *(lost_by_parent("task", "workstream", state) for state in LOST),
            # For checking whether a workstream is done, without reading its many completed tasks.
            models.Index(
                fields=("workstream", "state_entered_at"),
                condition=~Q(state=State.COMPLETED),
                name="task_open_by_workstream",
            ),
            # For the claims, which read the queue of one run at a time.
            models.Index(
                fields=("run", "priority", "state_entered_at", "id"),
                condition=Q(state=State.QUEUED),
                name="task_queue_of_run",
            ),
            # For counting how many of a run are running.
            models.Index(fields=("run",), condition=Q(state=State.RUNNING), name="task_running_of_run"),
            models.Index(
                fields=("not_before",),
                condition=Q(state=State.PENDING, not_before__isnull=False),
                name="task_by_not_before",
            ),
            models.Index(fields=("lease_expires_at",), condition=Q(state=State.RUNNING), name="task_by_lease"),
            models.Index(fields=("retry_at",), condition=Q(state=State.RETRYING), name="task_by_retry"),
            models.Index(
                fields=("dependency_due_at",),
                condition=Q(state=State.BLOCKED, dependency_due_at__isnull=False),
                name="task_by_dependency_due",
            ),
            models.Index(fields=("worker",), condition=Q(worker__isnull=False), name="task_by_worker"),
            models.Index(fields=("patch",), condition=Q(patch__isnull=False), name="task_by_patch"),
            # For counting how many use a tool.
            models.Index(fields=("tool",), condition=Q(state=State.RUNNING) & ~Q(tool=""), name="task_using_tool"),
        )

    @classmethod
    def derive_fields(cls, fields: dict[str, Any]) -> None:
        related(cls, "workstream").fill_run_and_phase(fields)

    @classmethod
    def is_moving(cls, stopped_gates: set[str]) -> Q:
        """Whether a task of a workstream that has started changes without a decision, and before any other part."""
        links = cls.depends_on.through.objects.filter(from_task=OuterRef("pk"), to_task__state__in=sorted(LIVE))
        elsewhere = links.exclude(to_task__run=OuterRef("run"))
        is_free = ~has_linked(cls, "depends_on", ~Q(state=State.COMPLETED))
        stopped, failed = Q(pk__in=stopped_gates), Q(state="FAILED", waived=False)
        has_stopped_gate = has_linked(cls, "gates", stopped) | has_linked(cls, "entry_gates", stopped)
        is_repaired = has_linked(cls, "gates", failed) & Q(repairs__lt=F("max_repairs"))
        lost_patch = Q(patch__state__in=("dropped", "rolled_back"))
        return (
            Q(state__in=sorted({*ACTIVE, State.PENDING}))
            | (Q(state=State.BLOCKED) & (has_rows(elsewhere) | (is_free & ~has_stopped_gate)))
            | (Q(state=State.VALIDATING) & ~lost_patch & (~has_stopped_gate | is_repaired))
        )

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        failed, not_completed = Q(state="FAILED", waived=False), ~Q(state=State.COMPLETED)
        workstream_state = related_column(cls, "workstream", "state")
        started = Q(Exact(workstream_state, "executing")) | Q(Exact(workstream_state, "paused"))
        repairs = Q(Exact(workstream_state, "validating"), GreaterThan(related_column(cls, "workstream", "repairs"), 0))
        not_passed = Q(waiver__isnull=True) & ~Q(state="PASSED")  # an expired waiver counts for what completed before
        return (
            Invariant(
                "queued_tasks_have_their_dependencies",
                "it is queued, but a task it depends on is not completed",
                lambda at: Q(state=State.QUEUED) & has_linked(cls, "depends_on", not_completed),
            ),
            Invariant(
                "running_tasks_are_within_their_timeout",
                "it has been running for longer than its timeout",
                lambda at: Q(state=State.RUNNING, lease_expires_at__lt=at),
                breaks_by_waiting=True,
            ),
            Invariant(
                "running_tasks_have_an_executing_workstream",
                "it is running, but its workstream is neither executing, paused nor repaired",
                lambda at: Q(state=State.RUNNING) & ~started & ~repairs,
            ),
            Invariant(
                "failed_gates_block",
                "a gate it depends on has failed, but it is not blocked",
                lambda at: (
                    Q(state__in=LIVE - {State.BLOCKED})
                    & (has_linked(cls, "gates", failed) | has_linked(cls, "entry_gates", failed))
                ),
            ),
            Invariant(
                "completed_tasks_have_passed_their_gates",
                "it is completed, but one of its exit gates has not passed",
                lambda at: Q(state=State.COMPLETED) & has_linked(cls, "gates", not_passed),
            ),
            Invariant(
                "tasks_belong_where_their_workstream_does",
                "its run or phase differs from that of its workstream",
                lambda at: (
                    ~Q(run=related_column(cls, "workstream", "run"), phase=related_column(cls, "workstream", "phase"))
                ),
            ),
        )

    def blockers(self) -> list[str]:
        """Returns what prevents it from being queued: incomplete dependencies, closed entry gates and failed gates."""
        tasks = all_outside(self, "depends_on", State.COMPLETED)
        gates = all_outside(self, "entry_gates", "PASSED")
        return sorted({*(other.id for other in (*tasks, *gates, *self._reruns())), *self.failed_gates()})

    def _reruns(self) -> list[Linked]:
        """Returns the exit gates that failed and are run again: they block the task until they pass."""
        if self.state != State.BLOCKED:
            return []
        return [gate for gate in all_outside(self, "gates", "PASSED") if gate.retry_of]

    def failed_gates(self) -> list[str]:
        return sorted({gate.id for link in ("gates", "entry_gates") for gate in all_inside(self, link, "FAILED")})

    def rejection(self) -> tuple[str, str] | None:
        """Returns the error and the output of the patch or exit gate that rejected its work; None if none did."""
        if self.patch is not None and self.patch.state == "quarantined":
            details = self.patch.quarantine_metadata
            return self.patch.quarantine_reason, _join_outputs(details.get("stdout"), details.get("stderr"))
        rerun = self.gates.filter(state="PENDING", retry_of__state="FAILED").order_by("pk").first()
        if rerun is None:
            return None
        failed: Any = rerun.retry_of
        error = f"gate {failed.pk} failed with exit code {failed.exit_code}"
        return error, _join_outputs(failed.stdout, failed.stderr)

    def find_hold(self, at: datetime) -> Hold | None:
        """Returns the first active hold that keeps it from being claimed."""
        active = cached_for_batch(self, (select_active, at), lambda _ids: list(select_active(at)))
        return next((hold for hold in active if self._is_covered_by(hold)), None)

    def _is_covered_by(self, hold: Hold) -> bool:
        required, tool = self.required_capabilities, self.tool
        return hold.covers(run_id=self.run_id, phase_id=self.phase_id, capabilities=required, tool=tool)

    def lease_is_stale(self, attempt: object) -> bool:
        return super().lease_is_stale(attempt) or self.state in UNCLAIMED | {State.CANCELLED}

    def last_contact(self) -> datetime | None:
        """The agent renews all its tasks with the heartbeat of its worker."""
        given = (self.last_heartbeat, self.worker.last_heartbeat if self.worker else None)
        return max((moment for moment in given if moment is not None), default=None)

    def lease_ends_at(self, at: datetime) -> datetime:
        return min(self.times_out_at(), at + timedelta(seconds=self.heartbeat_sec * HEARTBEAT_GRACE))

    def expires_at(self) -> datetime | None:
        return self.not_before if self.state == State.PENDING else self.lease_expires_at

    def times_out_at(self) -> datetime:
        return (self.started_at or self.state_entered_at) + timedelta(seconds=self.timeout_sec)

    def progress_limit(self) -> timedelta | None:
        """Returns how long its progress may stay the same; None for any time."""
        seconds = self.progress_timeout_sec or settings.STATECORE_PROGRESS_SECONDS
        return timedelta(seconds=seconds) if seconds else None

    def has_no_progress(self, at: datetime) -> bool:
        """Whether it runs and its progress has not changed for its limit."""
        return self.state == State.RUNNING and self.progress_due_at is not None and self.progress_due_at < at

    def progressed_at(self) -> datetime:
        """Returns when its progress last changed, or when it was started."""
        since = (self.progress or {}).get("since")
        return datetime.fromisoformat(since) if since else self.started_at or self.state_entered_at

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        self.cancelled_at = at if state == State.CANCELLED else None
        if state != State.RUNNING:
            self.worker_id = self.lease_expires_at = None
            self.claimed_by = ""
        elif self.progress_timeout_sec:
            self.progress_due_at = at + timedelta(seconds=self.progress_timeout_sec)
        else:
            self.progress_due_at = None
        if state != State.RETRYING:
            self.retry_at = None
        if state != State.BLOCKED and self.blocked_by:
            self.blocked_by = []
        self.dependency_due_at = self._compute_dependency_due(at) if state == State.BLOCKED else None

    def _compute_dependency_due(self, since: datetime) -> datetime | None:
        seconds = self.dependency_timeout_sec
        return None if seconds is None else since + timedelta(seconds=seconds)

    def fields_after_edit(self) -> dict[str, Any]:
        if self.state == State.BLOCKED:
            return {"dependency_due_at": self._compute_dependency_due(self.state_entered_at)}
        return {"lease_expires_at": self.times_out_at()} if self.state == State.RUNNING else {}

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        ran = (self.facts.at - self.started_at).total_seconds() if self.started_at else None
        return {
            "worker_id": self.worker_id,
            "duration_seconds": ran,
            "retry_count": self.retry_count,
            "exit_code": self.exit_code,
            "timeout_occurred": trigger == "timeout_exceeded",
            **({"blocked_by": self.blocked_by} if self.blocked_by else {}),
        }

    @transition(
        "scheduler_assigned",
        source=State.PENDING,
        target=State.QUEUED,
        by={SYSTEM},
        guards=[dependencies_are_completed, entry_gates_have_passed, its_time_has_come],
    )
    def queue(self) -> None: ...

    @transition(
        "dependency_check_failed", source=State.PENDING, target=State.BLOCKED, by={SYSTEM}, guards=[something_blocks_it]
    )
    def block(self) -> None:
        self.blocked_by = self.blockers()

    @transition(
        "gate_failed",
        source=LIVE - {State.BLOCKED},
        target=State.BLOCKED,
        by={SYSTEM},
        kind=TransitionKind.PROPAGATED,
        guards=[a_gate_has_failed],
        severity=Severity.WARNING,
    )
    def block_on_gate(self) -> None:
        self.blocked_by = self.failed_gates()

    @transition(
        "dependency_satisfied", source=State.BLOCKED, target=State.PENDING, by={SYSTEM}, guards=[nothing_blocks_it]
    )
    def unblock(self) -> None: ...

    @transition(
        "dependency_timeout_exceeded",
        source=State.BLOCKED,
        target=State.FAILED,
        by={SYSTEM},
        guards=[its_dependency_timeout_has_passed, its_run_fails_instead_of_waiting],
        severity=Severity.ERROR,
    )
    def fail_waiting(self) -> None:
        blockers = ", ".join(self.blocked_by)
        self.last_error = f"blocked by {blockers} for longer than {self.dependency_timeout_sec} s"

    @transition(
        "worker_started",
        source=State.QUEUED,
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[the_worker_takes_it, no_hold_covers_it, its_workstream_is_not_paused, its_run_has_room],
    )
    def start(self, worker: str) -> None:
        self.worker_id = self.last_worker = worker
        self.claimed_by = self.facts.actor.name if self.facts.actor.kind is AGENT else ""
        self.started_at = self.facts.at
        self.attempt += 1
        self.exit_code = self.result = None
        self.lease_expires_at = self.times_out_at()

    @transition(
        "execution_completed",
        source=State.RUNNING,
        target=State.VALIDATING,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current, the_exit_code_is_expected],
    )
    def finish(self, exit_code: int, attempt: int | None = None, output: str = "", result: Any = None) -> None:
        self.exit_code = exit_code
        self.output = output
        self.result = result

    @transition(
        "execution_failed",
        source=State.RUNNING,
        target=State.RETRYING,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current, retries_remain],
        severity=Severity.WARNING,
    )
    def fail_and_retry(
        self,
        error: str,
        attempt: int | None = None,
        exit_code: int | None = None,
        output: str = "",
        tool_failed: bool | None = None,
        retry: bool = True,
    ) -> None:
        self._record_failure(error, exit_code, output)
        self._schedule_retry()

    @transition(
        "execution_failed",
        source=State.RUNNING,
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current, retries_are_exhausted],
        severity=Severity.ERROR,
    )
    def fail(
        self,
        error: str,
        attempt: int | None = None,
        exit_code: int | None = None,
        output: str = "",
        tool_failed: bool | None = None,
        retry: bool = True,
    ) -> None:
        self._record_failure(error, exit_code, output)

    @transition(
        "timeout_exceeded",
        source=State.RUNNING,
        target=State.RETRYING,
        by={SYSTEM},
        guards=[the_timeout_has_passed, retries_remain],
        severity=Severity.WARNING,
    )
    def time_out_and_retry(self) -> None:
        self._record_failure(f"timed out after {self.timeout_sec} s", None, self.output)
        self._schedule_retry()

    @transition(
        "timeout_exceeded",
        source=State.RUNNING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[the_timeout_has_passed, retries_are_exhausted],
        severity=Severity.ERROR,
    )
    def time_out(self) -> None:
        self._record_failure(f"timed out after {self.timeout_sec} s", None, self.output)

    @transition("user_cancelled", source=LIVE, target=State.CANCELLED, by={OPERATOR})
    def cancel(self) -> None: ...

    @transition("cascade_cancelled", source=LIVE, target=State.CANCELLED, by={SYSTEM}, kind=TransitionKind.PROPAGATED)
    def cancel_with_parent(self) -> None: ...

    @transition(
        "retry_delay_elapsed",
        source=State.RETRYING,
        target=State.QUEUED,
        by={SYSTEM},
        guards=[the_backoff_has_passed],
        severity=Severity.WARNING,
    )
    def queue_again(self) -> None: ...

    @transition(
        "validation_passed",
        source=State.VALIDATING,
        target=State.COMPLETED,
        by={SYSTEM},
        guards=[exit_gates_have_passed, the_patch_is_verified],
    )
    def pass_validation(self) -> None: ...

    @transition("validation_failed", source=State.VALIDATING, target=State.FAILED, by={SYSTEM}, severity=Severity.ERROR)
    def fail_validation(self, error: str) -> None:
        self.last_error = error

    @transition(
        "repair_requested",
        source=State.VALIDATING,
        target=State.QUEUED,
        by={SYSTEM},
        kind=TransitionKind.PROPAGATED,
        guards=[repairs_remain, its_work_was_rejected],
        severity=Severity.WARNING,
    )
    def repair(self) -> None:
        self.repairs += 1
        self.result = None
        self.last_error, self.output = self.rejection() or ("", "")

    def _record_failure(self, error: str, exit_code: int | None, output: str) -> None:
        self.last_error, self.exit_code, self.output = error, exit_code, output

    def _schedule_retry(self) -> None:
        self.retry_count += 1
        self.retry_at = self.facts.at + clock.retry_delay(self.pk, self.retry_count)


def _join_outputs(*outputs: str | None) -> str:
    return "\n".join(each for each in outputs if each)
