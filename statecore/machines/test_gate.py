"""A test gate: runs a command, and passes or blocks work depending on its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from ..framework.declarations import (
    ANY,
    ID_LENGTH,
    INTEGRATOR,
    OPERATOR,
    SYSTEM,
    AtMost,
    Facts,
    Flow,
    HeartbeatEntity,
    IdField,
    Invariant,
    Kind,
    LinkedEntity,
    ListedProgram,
    Rest,
    Severity,
    StateField,
    Succession,
    Unmet,
    awaited_by_state,
    constraints,
    first_outside,
    format_utc,
    has_linked,
    live_by_state,
    open_by_parent,
    read_links,
    related,
    transition,
    validate_tool,
)

TIMED_OUT = 124  # the exit code of timeout(1)
# States of a task before its work is done; `validating` and the final ones follow.
UNWORKED = ("pending", "queued", "running", "retrying", "blocked")
# An expired waiver counts for what relied on it while it was in effect.
NEITHER_PASSED_NOR_WAIVED = Q(waiver__isnull=True) & ~Q(state="PASSED")


class State(models.TextChoices):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PASSED = "PASSED"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"


FINAL = {State.PASSED, State.FAILED}
DONE = {State.PASSED}
WAITING = {State.PENDING, State.BLOCKED}  # for dependencies


class Type(models.TextChoices):
    LINT = "LINT"
    UNIT = "UNIT"
    INTEGRATION = "INTEGRATION"
    SECURITY = "SECURITY"


def dependencies_have_passed(gate: TestGate, facts: Facts) -> Unmet | None:
    other = first_outside(gate, "depends_on", State.PASSED)
    return other and Unmet("dependency_unmet", f"gate {other.id} is {other.state}, not PASSED", other.id)


def the_work_it_tests_is_done(gate: TestGate, facts: Facts) -> Unmet | None:
    """Executors choose among the gates that are due (executors/due_gates.py); integrators choose among all."""
    other = gate.find_unfinished_work() if facts.actor.kind is Kind.INTEGRATOR else None
    detail = f"{other} is {other.state}: the work that it tests is not done" if other else ""
    return Unmet("work_unfinished", detail, other.pk, other.flow.entity_type) if other else None


def a_dependency_has_failed(gate: TestGate, facts: Facts) -> Unmet | None:
    if _failed_dependencies(gate).exists():
        return None
    return Unmet("no_dependency_failed", "none of the gates it depends on has failed")


def no_dependency_stands_failed(gate: TestGate, facts: Facts) -> Unmet | None:
    failed = _failed_dependencies(gate).values_list("pk", flat=True).first()
    return Unmet("dependency_failed", f"gate {failed} is FAILED", failed) if failed else None


def _failed_dependencies(gate: TestGate) -> Any:
    return gate.depends_on.filter(state=State.FAILED, waived=False)


def the_exit_code_is_expected(gate: TestGate, facts: Facts) -> Unmet | None:
    code = facts.params["exit_code"]
    if code == gate.expected_exit_code:
        return None
    return Unmet("exit_code", f"exit code {code} is not the expected {gate.expected_exit_code}: report gate_failed")


def the_exit_code_is_unexpected(gate: TestGate, facts: Facts) -> Unmet | None:
    if facts.params["exit_code"] != gate.expected_exit_code:
        return None
    return Unmet("exit_code", f"exit code {gate.expected_exit_code} is expected: report gate_passed")


def the_timeout_has_passed(gate: TestGate, facts: Facts) -> Unmet | None:
    until = gate.times_out_at or gate.state_entered_at
    return Unmet("not_timed_out", f"it times out at {format_utc(until)}") if facts.at < until else None


class TestGate(LinkedEntity, HeartbeatEntity):
    __test__ = False  # keeps pytest from collecting it as a test case

    flow = Flow(
        version="1.3.1",
        collection="gates",
        prefix="gate",
        event_noun="gate",
        final=FINAL,
        done=DONE,
        timing={
            State.PENDING: timedelta(hours=24),
            State.RUNNING: timedelta(minutes=30),
            State.BLOCKED: Rest("it waits for a re-run of the gate it depends on"),
        },
        succession=Succession(waits_in={"depends_on": WAITING}),
        free_in=WAITING,
        renewed_in={State.RUNNING},
        created_by={OPERATOR, SYSTEM},
        agents_set={
            **dict.fromkeys(("gate_type", "phase", "workstream", "depends_on", "expected_exit_code"), ANY),
            **dict.fromkeys(("tool", "metadata"), ANY),
            "command": ListedProgram("STATECORE_GATE_COMMANDS"),
            "timeout_sec": AtMost("STATECORE_AGENT_TIMEOUT_SECONDS"),
            "max_reruns": AtMost("STATECORE_AGENT_RETRIES"),
        },
        executors="STATECORE_GATE_COMMANDS",
    )

    volatile = (*HeartbeatEntity.volatile, "attempt", "times_out_at", "runner_until", "abandoned")
    awaited_state = f"CASE WHEN {{row}}.waived THEN '{State.PASSED}' ELSE {{row}}.state END"
    state = StateField(State, initial=State.PENDING)
    gate_type = models.CharField(max_length=16, choices=Type.choices)
    phase = models.ForeignKey("statecore.Phase", models.PROTECT, related_name="gates")
    workstream = models.ForeignKey("statecore.Workstream", models.PROTECT, null=True, blank=True, related_name="gates")
    run = models.ForeignKey("statecore.Run", models.PROTECT, null=True, editable=False, related_name="+")
    depends_on = models.ManyToManyField("self", symmetrical=False, related_name="dependents", blank=True)
    command = models.TextField()
    # The id of the tool that its command calls.
    tool = IdField(max_length=ID_LENGTH, default="", db_default="", blank=True, validators=[validate_tool])
    expected_exit_code = models.SmallIntegerField(default=0)
    timeout_sec = models.PositiveIntegerField(default=1800, validators=[MinValueValidator(1)])
    # How often the system runs it again after a failure, each time as a successor.
    max_reruns = models.PositiveSmallIntegerField(default=0, db_default=0, validators=[MaxValueValidator(100)])
    # The automatic re-runs before this one; a retry by an operator starts again from zero.
    reruns = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    exit_code = models.IntegerField(null=True, editable=False)
    stdout = models.TextField(null=True, editable=False)
    stderr = models.TextField(null=True, editable=False)
    duration_sec = models.FloatField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    times_out_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    # The lease of the built-in runner; NULL if an integrator runs the gate.
    runner_until = models.DateTimeField(null=True, editable=False)
    # Its workstream has ended, so nothing depends on this gate any more.
    abandoned = models.BooleanField(default=False, editable=False)
    # Whether a waiver is in effect: what waits for the gate treats it as passed.
    waived = models.BooleanField(default=False, db_default=False, editable=False)
    # The last waiver, which is kept when it has expired: {"by", "reason", "category", "at", "expires_at"}.
    waiver = models.JSONField(null=True, editable=False)

    class Meta(HeartbeatEntity.Meta):
        default_permissions = (*HeartbeatEntity.Meta.default_permissions, "waive")
        constraints = (
            constraints.one_of("gate", "state", State),
            constraints.one_of("gate", "gate_type", Type),
            constraints.set_exactly_in("gate", "exit_code", FINAL),
            constraints.set_exactly_in("gate", "stdout", FINAL),
            constraints.set_exactly_in("gate", "stderr", FINAL),
            constraints.set_exactly_in("gate", "completed_at", FINAL),
            *constraints.in_time_order("gate", "created_at", "started_at", "completed_at"),
        )
        indexes = (
            live_by_state("gate", FINAL),
            awaited_by_state("gate", FINAL),
            open_by_parent("gate", "workstream", DONE),
            models.Index(fields=("gate_type",), name="gate_by_type"),
            # For counting how many use a tool.
            models.Index(fields=("tool",), condition=Q(state=State.RUNNING) & ~Q(tool=""), name="gate_using_tool"),
            models.Index(fields=("state_entered_at",), condition=Q(waived=True), name="gate_waived"),
            # For the sweep that finds gates to run: those of validating workstreams, and re-runs.
            models.Index(fields=("workstream",), condition=Q(state=State.PENDING), name="gate_pending_by_workstream"),
            models.Index(
                fields=("state_entered_at",),
                condition=Q(state=State.PENDING, retry_of__isnull=False, abandoned=False),
                name="gate_pending_rerun",
            ),
        )

    @classmethod
    def derive_fields(cls, fields: dict[str, Any]) -> None:
        if fields.get("workstream") is not None:
            given = fields.get("phase")
            related(cls, "workstream").fill_run_and_phase(fields)
            fields["phase"] = given or fields.get("phase")

    @classmethod
    def find_stopped(cls, run_id: str) -> set[str]:
        """Returns the gates of a run that do not pass without a decision: they failed, or wait for such a gate."""
        gates = cls._default_manager.exclude(state=State.PASSED).exclude(waived=True)
        frontier = [*gates.filter(run=run_id), *gates.filter(exit_of__run=run_id), *gates.filter(entry_of__run=run_id)]
        found: dict[str, TestGate] = {}
        links: dict[str, list[str]] = {}
        while frontier:
            found |= {gate.pk: gate for gate in frontier}
            links |= {pk: each["depends_on"] for pk, each in read_links(cls, [gate.pk for gate in frontier]).items()}
            frontier = list(gates.filter(pk__in={other for ids in links.values() for other in ids} - found.keys()))
        stopped = {pk for pk, gate in found.items() if gate.state == State.FAILED and gate.reruns >= gate.max_reruns}
        waiting = {pk for pk, gate in found.items() if gate.state in WAITING}
        while more := {pk for pk in waiting - stopped if stopped & set(links[pk])}:
            stopped |= more
        return stopped

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        return (
            Invariant(
                "running_gates_are_within_their_timeout",
                "it has been running for longer than its timeout",
                lambda at: Q(state=State.RUNNING, times_out_at__lt=at),
                breaks_by_waiting=True,
            ),
            Invariant(
                "gates_run_after_their_dependencies",
                "it has run, but a gate it depends on has not passed",
                lambda at: (
                    Q(state__in=(State.RUNNING, *FINAL)) & has_linked(cls, "depends_on", NEITHER_PASSED_NOR_WAIVED)
                ),
            ),
        )

    @classmethod
    def closed_to_agents(cls, ids: Iterable[str]) -> list[str]:
        """Those of a workstream or of tasks: another task would let them run before the work that they test is done."""
        gates = cls._default_manager.filter(pk__in=list(ids))
        closed = gates.filter(Q(workstream__isnull=False) | Q(exit_of__isnull=False))
        return sorted(set(closed.values_list("pk", flat=True)))

    def find_unfinished_work(self) -> Any:
        """Returns a task or workstream that the gate would test before its work is done, or None.

        A gate of several tasks runs after any of them. One that others depend on runs before them. A re-run tests again
        what was done, unless it is being repaired.
        """
        tasks = self.exit_of.filter(successor=None)
        if not tasks.exists():
            return self._find_unfinished_workstream()
        unfinished = tasks.filter(state__in=UNWORKED)
        if self._is_rerun():
            return unfinished.filter(repairs__gt=0).exclude(state="blocked").first()
        return None if tasks.exclude(pk__in=unfinished.values("pk")).exists() else unfinished.first()

    def _find_unfinished_workstream(self) -> Any:
        if self.workstream is None or self.entry_of.exists():
            return None
        if self.workstream.repairs and (repair := self.workstream.tasks.filter(state__in=UNWORKED).first()):
            return repair
        is_early = self.workstream.state != "validating" and not self.workstream.has_ended()
        return self.workstream if is_early and not self._is_rerun() and not self.dependents.exists() else None

    def _is_rerun(self) -> bool:
        """Whether it was retried alone; a gate that was retried with its workstream waits for its work."""
        first: Any = self.retry_of
        return first is not None and first.workstream_id == self.workstream_id

    def has_ended(self) -> bool:
        """True also if it was abandoned before it started."""
        return super().has_ended() or (self.abandoned and self.state != State.RUNNING)

    def lease_ends_at(self, at: datetime) -> datetime | None:
        return self.times_out_at

    def expires_at(self) -> datetime | None:
        return self.times_out_at

    def judged_work(self) -> set[str]:
        """The work on its tasks: those that it is an exit gate of, otherwise all of its workstream."""
        columns = ("holder", "patch__author", "patch__patch__author")
        found = list(self.exit_of.values_list(*columns).distinct())
        if not found and self.workstream is not None:
            found = list(self.workstream.tasks.values_list(*columns).distinct())
        return {identity for row in found for identity in row if identity}

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        if self._state.adding:
            self.reruns = self._count_reruns()
        if state != State.RUNNING:
            self.times_out_at = self.runner_until = None
        if state not in FINAL:
            self.completed_at = self.exit_code = self.stdout = self.stderr = self.duration_sec = None
            return
        self.completed_at = at
        self.exit_code = self._forced_exit_code() if self.exit_code is None else self.exit_code
        self.stdout, self.stderr = self.stdout or "", self.stderr or ""

    def _count_reruns(self) -> int:
        first: Any = self.retry_of
        return first.reruns + 1 if self._is_rerun() and self.facts.actor.kind is SYSTEM else 0

    def _forced_exit_code(self) -> int:
        """Returns an exit code for an overridden gate, which has none, but needs one in a final state."""
        passed = self.state == State.PASSED
        return self.expected_exit_code if passed else int(self.expected_exit_code == 0)

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        return {
            "gate_type": self.gate_type,
            "exit_code": self.exit_code,
            "duration_seconds": self.duration_sec,
            "timeout_occurred": trigger == "timeout_exceeded",
            **({"blocked_by": self._failed_dependencies()} if self.state == State.BLOCKED else {}),
        }

    def _failed_dependencies(self) -> list[str]:
        failed = self.depends_on.filter(state=State.FAILED)
        return list(failed.order_by("pk").values_list("pk", flat=True))

    @transition(
        "gate_started",
        source=State.PENDING,
        target=State.RUNNING,
        by={INTEGRATOR, SYSTEM},
        guards=[dependencies_have_passed, the_work_it_tests_is_done],
    )
    def start(self) -> None:
        self.started_at = self.facts.at
        self.times_out_at = self.facts.at + timedelta(seconds=self.timeout_sec)

    @transition(
        "dependency_gate_failed",
        source=State.PENDING,
        target=State.BLOCKED,
        by={SYSTEM},
        guards=[a_dependency_has_failed],
        severity=Severity.WARNING,
    )
    def block(self) -> None: ...

    @transition(
        "dependency_gate_passed",
        source=State.BLOCKED,
        target=State.PENDING,
        by={SYSTEM},
        guards=[no_dependency_stands_failed],
    )
    def unblock(self) -> None: ...

    @transition(
        "gate_passed",
        source=State.RUNNING,
        target=State.PASSED,
        by={INTEGRATOR, SYSTEM},
        guards=[the_exit_code_is_expected],
    )
    def pass_(self, exit_code: int, stdout: str = "", stderr: str = "", duration_sec: float | None = None) -> None:
        self._finish(exit_code, stdout, stderr, duration_sec)

    @transition(
        "gate_failed",
        source=State.RUNNING,
        target=State.FAILED,
        by={INTEGRATOR, SYSTEM},
        guards=[the_exit_code_is_unexpected],
        severity=Severity.ERROR,
    )
    def fail(self, exit_code: int, stdout: str = "", stderr: str = "", duration_sec: float | None = None) -> None:
        self._finish(exit_code, stdout, stderr, duration_sec)

    @transition(
        "timeout_exceeded",
        source=State.RUNNING,
        target=State.FAILED,
        by={SYSTEM},
        guards=[the_timeout_has_passed],
        severity=Severity.ERROR,
    )
    def time_out(self, stdout: str = "", stderr: str = "") -> None:
        self._finish(TIMED_OUT, stdout, stderr or f"timed out after {self.timeout_sec} s", None)

    def _finish(self, exit_code: int, stdout: str, stderr: str, duration_sec: float | None) -> None:
        self.exit_code, self.stdout, self.stderr = exit_code, stdout, stderr
        ran = (self.facts.at - self.started_at).total_seconds() if self.started_at else None
        self.duration_sec = duration_sec if duration_sec is not None else ran
