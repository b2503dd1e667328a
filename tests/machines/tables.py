"""The machines as specified, written by hand as a second opinion: nothing here is derived from the code.

A row is "from -> to: trigger". `table` has the rows of the specification, `more` additional triggers of the same edges,
and `added` edges of later decisions. `forbidden` pairs must never be an edge; `*` is any state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Edge = tuple[str, str, str]
Pair = tuple[str, str]


def edges(text: str) -> frozenset[Edge]:
    return frozenset(_edge(line) for line in text.strip().splitlines())


def _edge(line: str) -> Edge:
    source, _arrow, rest = line.strip().partition(" -> ")
    target, _colon, trigger = rest.partition(": ")
    return source, target, trigger


def pairs(text: str) -> frozenset[Pair]:
    return frozenset((a.strip(), b.strip()) for a, b in (line.split(" -> ") for line in text.strip().splitlines()))


@dataclass(frozen=True)
class Table:
    states: str
    final: str
    table: str
    initial: str
    more: str = ""
    added: str = ""
    added_states: str = ""
    forbidden: str = ""
    # Final states that a decision lets an entity leave.
    exits: frozenset[Pair] = frozenset()
    severity: dict[str, str] = field(default_factory=dict)
    # How many states and transitions the specification counts.
    counts: tuple[int, int] | None = None

    @property
    def state_set(self) -> frozenset[str]:
        return frozenset(f"{self.states} {self.added_states}".split())

    @property
    def final_set(self) -> frozenset[str]:
        return frozenset(self.final.split())

    @property
    def every_edge(self) -> frozenset[Edge]:
        return edges(self.table) | edges(self.more) | edges(self.added)

    @property
    def table_pairs(self) -> frozenset[Pair]:
        return frozenset((source, target) for source, target, _trigger in edges(self.table))

    @property
    def forbidden_pairs(self) -> frozenset[Pair]:
        """The invalid transitions with `*` expanded, without the declared exits of final states."""
        listed = pairs(self.forbidden) if self.forbidden else frozenset()
        return (
            frozenset(
                (source, state)
                for source, target in listed
                for state in (self.state_set - {source} if target == "*" else {target})
            )
            - self.exits
        )


TABLES: dict[str, Table] = {}

TABLES["run"] = Table(
    initial="pending",
    states="pending running succeeded failed canceled",
    final="succeeded failed canceled",
    counts=(5, 5),
    table="""
        pending -> running: run_started
        running -> succeeded: all_workstreams_completed
        running -> failed: critical_workstream_failed
        running -> canceled: run_canceled
        pending -> canceled: run_canceled
    """,
    more="""
        running -> failed: nothing_can_continue
    """,
    forbidden="""
        succeeded -> *
        failed -> *
        canceled -> *
        running -> pending
        pending -> succeeded
        pending -> failed
    """,
    severity={"pending -> running: run_started": "info", "running -> succeeded: all_workstreams_completed": "info"},
)

# a quarantined patch fails the workstream
TABLES["workstream"] = Table(
    initial="planned",
    states="planned ready blocked executing validating completed failed cancelled skipped",
    added_states="paused",
    final="completed failed cancelled skipped",
    counts=(9, 13),
    table="""
        planned -> ready: tasks_created
        planned -> blocked: dependency_unsatisfied
        planned -> skipped: workstream_skipped
        planned -> cancelled: workstream_cancelled
        blocked -> ready: dependencies_met
        ready -> executing: first_task_started
        ready -> skipped: workstream_skipped
        ready -> cancelled: workstream_cancelled
        executing -> validating: all_tasks_completed
        executing -> failed: critical_task_failed
        executing -> cancelled: workstream_cancelled
        validating -> completed: validation_passed
        validating -> failed: validation_failed
    """,
    more="""
        executing -> failed: patch_quarantined
        validating -> failed: patch_quarantined
    """,
    added="""
        planned -> failed: patch_quarantined
        ready -> failed: patch_quarantined
        blocked -> failed: patch_quarantined
        planned -> failed: critical_task_failed
        ready -> failed: critical_task_failed
        blocked -> failed: critical_task_failed
        validating -> failed: critical_task_failed
        planned -> cancelled: cascade_cancelled
        ready -> cancelled: cascade_cancelled
        blocked -> cancelled: cascade_cancelled
        executing -> cancelled: cascade_cancelled
        validating -> cancelled: cascade_cancelled
        ready -> paused: workstream_paused
        executing -> paused: workstream_paused
        blocked -> paused: workstream_paused
        paused -> ready: workstream_resumed
        paused -> executing: workstream_resumed
        paused -> blocked: workstream_resumed
        paused -> failed: critical_task_failed
        paused -> failed: patch_quarantined
        paused -> cancelled: workstream_cancelled
        paused -> cancelled: cascade_cancelled
    """,
    forbidden="""
        completed -> *
        failed -> *
        cancelled -> *
        skipped -> *
        executing -> planned
        executing -> blocked
        validating -> executing
    """,
    severity={
        "executing -> failed: critical_task_failed": "critical",
        "paused -> failed: critical_task_failed": "critical",
        "paused -> failed: patch_quarantined": "error",
        "planned -> failed: critical_task_failed": "critical",
        "planned -> failed: patch_quarantined": "error",
        "ready -> failed: patch_quarantined": "error",
        "blocked -> failed: patch_quarantined": "error",
        "executing -> failed: patch_quarantined": "error",
        "validating -> failed: patch_quarantined": "error",
        "validating -> failed: validation_failed": "error",
        "validating -> completed: validation_passed": "info",
    },
)

# a failed gate blocks, a timeout is retried too
TABLES["task"] = Table(
    initial="pending",
    states="pending queued running validating completed failed retrying cancelled blocked",
    final="completed failed cancelled",
    counts=(9, 11),
    table="""
        pending -> queued: scheduler_assigned
        pending -> blocked: dependency_check_failed
        blocked -> pending: dependency_satisfied
        queued -> running: worker_started
        running -> validating: execution_completed
        running -> retrying: execution_failed
        running -> failed: execution_failed
        running -> cancelled: user_cancelled
        retrying -> queued: retry_delay_elapsed
        validating -> completed: validation_passed
        validating -> failed: validation_failed
    """,
    more="""
        running -> failed: timeout_exceeded
        running -> retrying: timeout_exceeded
    """,
    added="""
        pending -> blocked: gate_failed
        queued -> blocked: gate_failed
        running -> blocked: gate_failed
        validating -> blocked: gate_failed
        retrying -> blocked: gate_failed
        pending -> cancelled: cascade_cancelled
        queued -> cancelled: cascade_cancelled
        blocked -> cancelled: cascade_cancelled
        running -> cancelled: cascade_cancelled
        validating -> cancelled: cascade_cancelled
        retrying -> cancelled: cascade_cancelled
        pending -> cancelled: user_cancelled
        queued -> cancelled: user_cancelled
        blocked -> cancelled: user_cancelled
        validating -> cancelled: user_cancelled
        retrying -> cancelled: user_cancelled
        validating -> queued: repair_requested
        blocked -> failed: dependency_timeout_exceeded
    """,
    forbidden="""
        completed -> *
        failed -> *
        cancelled -> *
        completed -> running
        running -> pending
        running -> queued
        validating -> running
    """,
    severity={
        "pending -> queued: scheduler_assigned": "info",
        "pending -> blocked: dependency_check_failed": "info",
        "running -> blocked: gate_failed": "warning",
        "running -> retrying: execution_failed": "warning",
        "running -> retrying: timeout_exceeded": "warning",
        "running -> failed: execution_failed": "error",
        "running -> failed: timeout_exceeded": "error",
        "validating -> completed: validation_passed": "info",
        "validating -> failed: validation_failed": "error",
    },
)

TABLES["worker"] = Table(
    initial="initializing",
    states="initializing idle busy unresponsive shutdown",
    added_states="suspended",
    final="shutdown",
    counts=(5, 8),
    table="""
        initializing -> idle: registration_completed
        idle -> busy: task_assigned
        busy -> idle: task_completed
        busy -> unresponsive: health_check_timeout
        unresponsive -> idle: health_check_recovered
        unresponsive -> shutdown: max_timeout_exceeded
        idle -> shutdown: shutdown_requested
        busy -> shutdown: shutdown_requested
    """,
    added="""
        idle -> suspended: worker_suspended
        busy -> busy: worker_suspended
        suspended -> idle: worker_resumed
        busy -> busy: worker_resumed
    """,
    more="""
        suspended -> shutdown: shutdown_requested
    """,
    forbidden="""
        shutdown -> *
        initializing -> busy
        initializing -> unresponsive
        idle -> unresponsive
    """,
    severity={
        "initializing -> idle: registration_completed": "info",
        "unresponsive -> idle: health_check_recovered": "warning",
    },
)

TABLES["uet_worker"] = Table(
    initial="SPAWNING",
    states="SPAWNING IDLE BUSY DRAINING TERMINATED",
    final="TERMINATED",
    counts=(5, 8),
    table="""
        SPAWNING -> IDLE: initialization_completed
        SPAWNING -> TERMINATED: spawn_failed
        IDLE -> BUSY: task_assigned
        IDLE -> TERMINATED: shutdown_requested
        BUSY -> IDLE: task_completed
        BUSY -> DRAINING: shutdown_requested
        BUSY -> TERMINATED: worker_crashed
        DRAINING -> TERMINATED: current_task_finished
    """,
    forbidden="""
        TERMINATED -> *
        IDLE -> SPAWNING
        BUSY -> SPAWNING
        DRAINING -> IDLE
        DRAINING -> BUSY
    """,
    severity={
        "SPAWNING -> TERMINATED: spawn_failed": "error",
        "BUSY -> TERMINATED: worker_crashed": "error",
        "IDLE -> TERMINATED: shutdown_requested": "info",
    },
)

# final states by policy; quarantine is a warning, rolling back is critical
TABLES["patch_ledger"] = Table(
    initial="created",
    states="created validated queued applied apply_failed verified committed rolled_back quarantined dropped",
    final="committed rolled_back quarantined dropped",
    counts=(10, 12),
    table="""
        created -> validated: validation_passed
        created -> quarantined: validation_failed
        validated -> queued: accepted_for_merge
        validated -> quarantined: policy_violated
        queued -> applied: apply_succeeded
        queued -> apply_failed: apply_failed
        applied -> verified: tests_passed
        applied -> quarantined: tests_failed
        apply_failed -> quarantined: auto_quarantined
        apply_failed -> dropped: discarded
        verified -> committed: commit_succeeded
        committed -> rolled_back: rollback_requested
    """,
    added="""
        apply_failed -> queued: apply_retried
        quarantined -> dropped: discarded
    """,
    exits=pairs("""
        committed -> rolled_back
        quarantined -> dropped
    """),
    forbidden="""
        committed -> created
        committed -> queued
        quarantined -> *
        dropped -> *
        rolled_back -> *
    """,
    severity={
        "created -> validated: validation_passed": "info",
        "created -> quarantined: validation_failed": "warning",
        "validated -> quarantined: policy_violated": "warning",
        "applied -> quarantined: tests_failed": "warning",
        "apply_failed -> quarantined: auto_quarantined": "warning",
        "apply_failed -> queued: apply_retried": "warning",
        "committed -> rolled_back: rollback_requested": "critical",
    },
)

# the timeout is an invariant
TABLES["test_gate"] = Table(
    initial="PENDING",
    states="PENDING RUNNING PASSED FAILED BLOCKED",
    final="PASSED FAILED",
    counts=(5, 5),
    table="""
        PENDING -> RUNNING: gate_started
        PENDING -> BLOCKED: dependency_gate_failed
        RUNNING -> PASSED: gate_passed
        RUNNING -> FAILED: gate_failed
        BLOCKED -> PENDING: dependency_gate_passed
    """,
    more="RUNNING -> FAILED: timeout_exceeded",
    forbidden="""
        PASSED -> *
        FAILED -> *
        FAILED -> PASSED
        RUNNING -> PENDING
    """,
    severity={
        "PENDING -> RUNNING: gate_started": "info",
        "RUNNING -> PASSED: gate_passed": "info",
        "RUNNING -> FAILED: gate_failed": "error",
        "RUNNING -> FAILED: timeout_exceeded": "error",
    },
)

TABLES["circuit_breaker"] = Table(
    initial="CLOSED",
    states="CLOSED OPEN HALF_OPEN",
    final="",
    counts=(3, 4),
    table="""
        CLOSED -> OPEN: failure_threshold_exceeded
        OPEN -> HALF_OPEN: cooldown_expires
        HALF_OPEN -> CLOSED: success
        HALF_OPEN -> OPEN: failure
    """,
    forbidden="OPEN -> CLOSED",
    severity={"CLOSED -> OPEN: failure_threshold_exceeded": "error"},
)

# staying in a state is a no-op, not an edge
TABLES["ingestion_job"] = Table(
    initial="pending",
    states="pending running succeeded failed quarantined",
    final="succeeded quarantined",
    table="""
        pending -> running: start
        running -> succeeded: succeed
        running -> failed: fail
        failed -> pending: retry
        failed -> quarantined: quarantine
        quarantined -> pending: retry
    """,
    exits=pairs("quarantined -> pending"),
    forbidden="""
        pending -> succeeded
        pending -> failed
        pending -> quarantined
        running -> pending
        running -> quarantined
        failed -> running
        failed -> succeeded
        succeeded -> *
        quarantined -> *
    """,
    severity={
        "running -> succeeded: succeed": "info",
        "running -> failed: fail": "error",
        "failed -> pending: retry": "warning",
    },
)

TABLES["agent_job"] = Table(
    initial="queued",
    states="queued running waiting parked retrying completed failed cancelled",
    final="completed failed cancelled",
    table="""
        queued -> queued: job_requeued
        queued -> running: job_leased
        queued -> running: job_running
        queued -> queued: wait_completed
        running -> queued: job_requeued
        running -> waiting: job_waiting
        running -> queued: wait_completed
        running -> completed: job_completed
        running -> failed: job_failed
        running -> cancelled: job_cancelled
        waiting -> queued: wait_completed
        waiting -> cancelled: job_cancelled
        parked -> queued: wait_completed
        parked -> cancelled: job_cancelled
        retrying -> queued: job_requeued
        retrying -> running: job_leased
        retrying -> running: job_running
        retrying -> queued: wait_completed
        failed -> queued: job_requeued
    """,
    added="""
        waiting -> parked: job_parked
        running -> retrying: job_retry_scheduled
        failed -> retrying: job_retry_scheduled
    """,
    exits=pairs("""
        failed -> queued
        failed -> retrying
    """),
    forbidden="""
        completed -> *
        cancelled -> *
        failed -> *
        queued -> waiting
        queued -> completed
        queued -> failed
        queued -> cancelled
        waiting -> running
        waiting -> completed
        waiting -> failed
        parked -> running
        parked -> completed
        parked -> failed
        retrying -> waiting
        retrying -> completed
        retrying -> failed
        retrying -> cancelled
    """,
    severity={"running -> completed: job_completed": "info", "running -> failed: job_failed": "error"},
)

# terminated from any state that is not final
TABLES["supervised_worker"] = Table(
    initial="IDLE",
    states="IDLE RUNNING PAUSED COMPLETED FAILED TERMINATED",
    final="COMPLETED FAILED TERMINATED",
    table="""
        IDLE -> RUNNING: start_task
        RUNNING -> PAUSED: pause
        PAUSED -> RUNNING: resume
        RUNNING -> COMPLETED: complete_tasks
        RUNNING -> FAILED: error_unrecoverable
        RUNNING -> RUNNING: error_transient
        IDLE -> TERMINATED: terminate
        RUNNING -> TERMINATED: terminate
        PAUSED -> TERMINATED: terminate
    """,
    more="""
        RUNNING -> PAUSED: resources_exhausted
        RUNNING -> FAILED: error_transient
    """,
    forbidden="""
        IDLE -> PAUSED
        IDLE -> COMPLETED
        COMPLETED -> RUNNING
        COMPLETED -> PAUSED
        COMPLETED -> *
        FAILED -> RUNNING
        FAILED -> *
        TERMINATED -> *
    """,
    severity={"IDLE -> RUNNING: start_task": "info", "RUNNING -> FAILED: error_unrecoverable": "error"},
)

# its map has SUBMITTED -> CANCELED as well
TABLES["supervised_job"] = Table(
    initial="SUBMITTED",
    states="SUBMITTED PENDING RUNNING COMPLETED FAILED CANCELED",
    final="COMPLETED FAILED CANCELED",
    table="""
        SUBMITTED -> PENDING: validate
        SUBMITTED -> CANCELED: cancel
        PENDING -> RUNNING: allocate_resources
        PENDING -> CANCELED: cancel
        RUNNING -> COMPLETED: success
        RUNNING -> FAILED: error
        RUNNING -> CANCELED: cancel
    """,
    added="SUBMITTED -> FAILED: validation_error",
    forbidden="""
        SUBMITTED -> RUNNING
        COMPLETED -> *
        FAILED -> RUNNING
        FAILED -> *
        CANCELED -> RUNNING
        CANCELED -> *
    """,
    severity={
        "SUBMITTED -> FAILED: validation_error": "error",
        "RUNNING -> FAILED: error": "error",
        "RUNNING -> COMPLETED: success": "info",
    },
)

# forward only, any later stage
TABLES["pipeline_job"] = Table(
    initial="PENDING",
    states="PENDING ANALYZING MAPPING MATERIALIZING VALIDATING DONE FAILED CANCELLED",
    final="DONE FAILED CANCELLED",
    table="""
        PENDING -> ANALYZING: analyze
        PENDING -> MAPPING: map
        ANALYZING -> MAPPING: map
        PENDING -> MATERIALIZING: materialize
        ANALYZING -> MATERIALIZING: materialize
        MAPPING -> MATERIALIZING: materialize
        PENDING -> VALIDATING: validate
        ANALYZING -> VALIDATING: validate
        MAPPING -> VALIDATING: validate
        MATERIALIZING -> VALIDATING: validate
        PENDING -> DONE: finish
        ANALYZING -> DONE: finish
        MAPPING -> DONE: finish
        MATERIALIZING -> DONE: finish
        VALIDATING -> DONE: finish
        PENDING -> FAILED: fail
        ANALYZING -> FAILED: fail
        MAPPING -> FAILED: fail
        MATERIALIZING -> FAILED: fail
        VALIDATING -> FAILED: fail
        PENDING -> CANCELLED: cancel
        ANALYZING -> CANCELLED: cancel
        MAPPING -> CANCELLED: cancel
        MATERIALIZING -> CANCELLED: cancel
        VALIDATING -> CANCELLED: cancel
    """,
    forbidden="""
        ANALYZING -> PENDING
        MAPPING -> ANALYZING
        MATERIALIZING -> MAPPING
        VALIDATING -> MATERIALIZING
        DONE -> *
        FAILED -> *
        CANCELLED -> *
    """,
    severity={"VALIDATING -> FAILED: fail": "error", "VALIDATING -> DONE: finish": "info"},
)
