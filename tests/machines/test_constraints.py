"""CHECK constraints: each refuses its invalid row.

The write guard is disabled, so that only the constraint can refuse the row.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import IntegrityError, connection, models, transaction

from statecore.kernel import registry
from statecore.storage import triggers
from tests.machines import worlds
from tests.machines.worlds import Clock
from tests.support import world
from tests.support.world import disable_write_guard

# A row is brought into one state and then corrupted; reactions would change that state.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]

EARLY, LATE = datetime(2000, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
A_WORKER = "a worker"

Row = tuple[str, str, str, dict[str, Any]]


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


def filled_exactly(table: str, machine: str, field: str, inside: str, arrive: dict[str, Any]) -> list[Row]:
    """The two ways to break "set exactly in these states": final without it, and initial with it."""
    name, initial = f"{table}_{field}_exactly_in_state", registry.flow(machine).initial
    return [(name, machine, inside, arrive), (name, machine, initial, {field: LATE})]


RUN: list[Row] = [
    ("run_state_is_known", "run", "pending", {"state": "paused"}),
    *filled_exactly("run", "run", "completed_at", "running", {"state": "succeeded"}),
    ("run_started_at_set_in_state", "run", "pending", {"state": "running"}),
    ("run_started_at_unset_in_state", "run", "pending", {"started_at": LATE}),
    ("run_created_at_before_started_at", "run", "running", {"started_at": EARLY}),
    ("run_started_at_before_completed_at", "run", "succeeded", {"started_at": LATE}),
    ("run_created_at_before_completed_at", "run", "canceled", {"completed_at": EARLY, "started_at": None}),
]

WORKSTREAM: list[Row] = [
    ("workstream_state_is_known", "workstream", "planned", {"state": "resting"}),
    ("workstream_paused_from_exactly_in_state", "workstream", "ready", {"paused_from": "ready"}),
    *filled_exactly("workstream", "workstream", "completed_at", "executing", {"state": "failed"}),
    ("workstream_completed_at_exactly_in_state", "workstream", "ready", {"state": "skipped"}),
    ("workstream_created_at_before_updated_at", "workstream", "planned", {"updated_at": EARLY}),
    ("workstream_updated_at_before_completed_at", "workstream", "skipped", {"completed_at": EARLY}),
]

TASK: list[Row] = [
    ("task_state_is_known", "task", "pending", {"state": "paused"}),
    ("task_worker_exactly_in_state", "task", "queued", {"state": "running", "started_at": LATE}),
    ("task_worker_exactly_in_state", "task", "pending", {"worker": A_WORKER}),
    ("task_worker_exactly_in_state", "task", "running", {"state": "validating"}),
    *filled_exactly("task", "task", "completed_at", "validating", {"state": "completed"}),
    ("task_cancelled_at_exactly_in_state", "task", "pending", {"state": "cancelled", "completed_at": LATE}),
    ("task_cancelled_at_exactly_in_state", "task", "pending", {"cancelled_at": LATE}),
    ("task_started_at_set_in_state", "task", "queued", {"state": "running", "worker": A_WORKER}),
    ("task_retry_count_at_most_max_retries", "task", "pending", {"retry_count": 4}),
    ("task_created_at_before_started_at", "task", "running", {"started_at": EARLY}),
    ("task_started_at_before_completed_at", "task", "completed", {"started_at": LATE}),
    ("task_created_at_before_completed_at", "task", "completed", {"completed_at": EARLY, "started_at": None}),
]

WORKER: list[Row] = [
    ("worker_state_is_known", "worker", "initializing", {"state": "asleep"}),
    ("worker_worker_type_is_known", "worker", "idle", {"worker_type": "toaster"}),
    *filled_exactly("worker", "worker", "shutdown_at", "idle", {"state": "shutdown"}),
    ("worker_current_load_at_most_max_concurrent_tasks", "worker", "idle", {"current_load": 2}),
    ("worker_created_at_before_last_heartbeat", "worker", "idle", {"last_heartbeat": EARLY}),
    ("worker_created_at_before_shutdown_at", "worker", "shutdown", {"shutdown_at": EARLY}),
]

UET_WORKER: list[Row] = [
    ("uet_worker_state_is_known", "uet_worker", "SPAWNING", {"state": "idle"}),
    *filled_exactly("uet_worker", "uet_worker", "terminated_at", "BUSY", {"state": "TERMINATED"}),
    ("uet_worker_created_at_before_last_heartbeat", "uet_worker", "IDLE", {"last_heartbeat": EARLY}),
    ("uet_worker_created_at_before_terminated_at", "uet_worker", "TERMINATED", {"terminated_at": EARLY}),
]

ROLLED_BACK = {"state": "rolled_back", "rollback_reason": "it broke the build", "rolled_back_at": LATE}
QUARANTINED = {"state": "quarantined", "quarantine_reason": "its tests failed", "quarantined_at": LATE}

PATCH_LEDGER: list[Row] = [
    ("patch_state_is_known", "patch_ledger", "created", {"state": "merged"}),
    ("patch_quarantine_reason_filled_in_state", "patch_ledger", "created", {**QUARANTINED, "quarantine_reason": ""}),
    ("patch_quarantined_at_set_in_state", "patch_ledger", "created", {**QUARANTINED, "quarantined_at": None}),
    ("patch_rollback_reason_filled_in_state", "patch_ledger", "verified", {**ROLLED_BACK, "rollback_reason": ""}),
    ("patch_rolled_back_at_exactly_in_state", "patch_ledger", "verified", {**ROLLED_BACK, "rolled_back_at": None}),
    ("patch_rolled_back_at_exactly_in_state", "patch_ledger", "created", {"rolled_back_at": LATE}),
    ("patch_created_at_before_updated_at", "patch_ledger", "created", {"updated_at": EARLY}),
    ("patch_created_at_before_quarantined_at", "patch_ledger", "quarantined", {"quarantined_at": EARLY}),
    ("patch_created_at_before_rolled_back_at", "patch_ledger", "rolled_back", {"rolled_back_at": EARLY}),
    ("patch_apply_retries_at_most_three", "patch_ledger", "created", {"apply_retries": 4}),
]

PASSED = {"state": "PASSED", "exit_code": 0, "stdout": "", "stderr": "", "completed_at": LATE}

TEST_GATE: list[Row] = [
    ("gate_state_is_known", "test_gate", "PENDING", {"state": "SKIPPED"}),
    ("gate_gate_type_is_known", "test_gate", "PENDING", {"gate_type": "SMELL"}),
    ("gate_exit_code_exactly_in_state", "test_gate", "RUNNING", {**PASSED, "exit_code": None}),
    ("gate_exit_code_exactly_in_state", "test_gate", "RUNNING", {**PASSED, "exit_code": None, "state": "FAILED"}),
    ("gate_exit_code_exactly_in_state", "test_gate", "RUNNING", {"exit_code": 0}),
    ("gate_stdout_exactly_in_state", "test_gate", "RUNNING", {**PASSED, "stdout": None}),
    ("gate_stdout_exactly_in_state", "test_gate", "PENDING", {"stdout": "3 passed"}),
    ("gate_stderr_exactly_in_state", "test_gate", "RUNNING", {**PASSED, "stderr": None}),
    ("gate_stderr_exactly_in_state", "test_gate", "PENDING", {"stderr": "a warning"}),
    ("gate_completed_at_exactly_in_state", "test_gate", "RUNNING", {**PASSED, "completed_at": None}),
    ("gate_completed_at_exactly_in_state", "test_gate", "PENDING", {"completed_at": LATE}),
    ("gate_created_at_before_started_at", "test_gate", "RUNNING", {"started_at": EARLY}),
    ("gate_started_at_before_completed_at", "test_gate", "PASSED", {"started_at": LATE}),
    ("gate_created_at_before_completed_at", "test_gate", "PASSED", {"completed_at": EARLY, "started_at": None}),
]

CIRCUIT_BREAKER: list[Row] = [
    ("breaker_state_is_known", "circuit_breaker", "CLOSED", {"state": "AJAR"}),
    *filled_exactly("breaker", "circuit_breaker", "opened_at", "CLOSED", {"state": "OPEN"}),
    ("breaker_probe_until_unset_in_state", "circuit_breaker", "CLOSED", {"probe_until": LATE}),
]

INGESTION_JOB: list[Row] = [
    ("ingestion_job_state_is_known", "ingestion_job", "pending", {"state": "stalled"}),
    (
        "ingestion_job_worker_name_exactly_in_state",
        "ingestion_job",
        "pending",
        {"state": "running", "started_at": LATE},
    ),
    ("ingestion_job_worker_name_exactly_in_state", "ingestion_job", "pending", {"worker_name": "w"}),
    ("ingestion_job_run_after_unset_in_state", "ingestion_job", "running", {"run_after": LATE}),
    ("ingestion_job_started_at_set_in_state", "ingestion_job", "pending", {"state": "running", "worker_name": "w"}),
    *filled_exactly(
        "ingestion_job", "ingestion_job", "completed_at", "running", {"state": "succeeded", "worker_name": ""}
    ),
    ("ingestion_job_created_at_before_started_at", "ingestion_job", "running", {"started_at": EARLY}),
    ("ingestion_job_started_at_before_completed_at", "ingestion_job", "succeeded", {"started_at": LATE}),
    (
        "ingestion_job_created_at_before_completed_at",
        "ingestion_job",
        "succeeded",
        {"completed_at": EARLY, "started_at": None},
    ),
]

AGENT_JOB: list[Row] = [
    ("agent_job_state_is_known", "agent_job", "queued", {"state": "Queued"}),
    ("agent_job_worker_name_exactly_in_state", "agent_job", "queued", {"state": "running", "started_at": LATE}),
    ("agent_job_worker_name_exactly_in_state", "agent_job", "queued", {"worker_name": "w"}),
    ("agent_job_waits_for_something_only_when_blocked", "agent_job", "queued", {"waiting_for": "a signal"}),
    ("agent_job_retry_at_unset_in_state", "agent_job", "queued", {"retry_at": LATE}),
    ("agent_job_started_at_set_in_state", "agent_job", "queued", {"state": "running", "worker_name": "w"}),
    *filled_exactly("agent_job", "agent_job", "completed_at", "running", {"state": "completed", "worker_name": ""}),
    ("agent_job_created_at_before_started_at", "agent_job", "running", {"started_at": EARLY}),
    ("agent_job_started_at_before_completed_at", "agent_job", "completed", {"started_at": LATE}),
    ("agent_job_created_at_before_completed_at", "agent_job", "completed", {"completed_at": EARLY, "started_at": None}),
]

SUPERVISED_WORKER: list[Row] = [
    ("supervised_worker_state_is_known", "supervised_worker", "IDLE", {"state": "ASLEEP"}),
    ("supervised_worker_active_tasks_at_most_capacity", "supervised_worker", "IDLE", {"active_tasks": 2}),
    ("supervised_worker_started_at_set_in_state", "supervised_worker", "IDLE", {"state": "RUNNING"}),
    ("supervised_worker_started_at_set_in_state", "supervised_worker", "IDLE", {"state": "PAUSED"}),
    ("supervised_worker_started_at_unset_in_state", "supervised_worker", "IDLE", {"started_at": LATE}),
    *filled_exactly("supervised_worker", "supervised_worker", "completed_at", "RUNNING", {"state": "COMPLETED"}),
    ("supervised_worker_created_at_before_started_at", "supervised_worker", "RUNNING", {"started_at": EARLY}),
    ("supervised_worker_started_at_before_completed_at", "supervised_worker", "COMPLETED", {"started_at": LATE}),
    (
        "supervised_worker_created_at_before_completed_at",
        "supervised_worker",
        "COMPLETED",
        {"completed_at": EARLY, "started_at": None},
    ),
]

SUPERVISED_JOB: list[Row] = [
    ("supervised_job_state_is_known", "supervised_job", "SUBMITTED", {"state": "CANCELLED"}),
    ("supervised_job_depth_in_range", "supervised_job", "SUBMITTED", {"depth": 6}),
    ("supervised_job_depth_in_range", "supervised_job", "SUBMITTED", {"depth": -1}),
    ("supervised_job_worker_count_in_range", "supervised_job", "SUBMITTED", {"worker_count": 0}),
    ("supervised_job_worker_count_in_range", "supervised_job", "SUBMITTED", {"worker_count": 11}),
    ("supervised_job_task_description_filled_in_state", "supervised_job", "PENDING", {"task_description": ""}),
    ("supervised_job_started_at_set_in_state", "supervised_job", "PENDING", {"state": "RUNNING"}),
    ("supervised_job_started_at_unset_in_state", "supervised_job", "SUBMITTED", {"started_at": LATE}),
    *filled_exactly("supervised_job", "supervised_job", "completed_at", "RUNNING", {"state": "COMPLETED"}),
    ("supervised_job_created_at_before_started_at", "supervised_job", "RUNNING", {"started_at": EARLY}),
    ("supervised_job_started_at_before_completed_at", "supervised_job", "COMPLETED", {"started_at": LATE}),
    (
        "supervised_job_created_at_before_completed_at",
        "supervised_job",
        "COMPLETED",
        {"completed_at": EARLY, "started_at": None},
    ),
]

PIPELINE_JOB: list[Row] = [
    ("pipeline_job_state_is_known", "pipeline_job", "PENDING", {"state": "REVIEWING"}),
    ("pipeline_job_last_error_filled_in_state", "pipeline_job", "PENDING", {"state": "FAILED", "completed_at": LATE}),
    ("pipeline_job_started_at_set_in_state", "pipeline_job", "PENDING", {"state": "ANALYZING"}),
    ("pipeline_job_started_at_unset_in_state", "pipeline_job", "PENDING", {"started_at": LATE}),
    *filled_exactly("pipeline_job", "pipeline_job", "completed_at", "ANALYZING", {"state": "DONE"}),
    ("pipeline_job_created_at_before_started_at", "pipeline_job", "ANALYZING", {"started_at": EARLY}),
    ("pipeline_job_started_at_before_completed_at", "pipeline_job", "DONE", {"started_at": LATE}),
    (
        "pipeline_job_created_at_before_completed_at",
        "pipeline_job",
        "DONE",
        {"completed_at": EARLY, "started_at": None},
    ),
]

# Every machine has this constraint, including machines that are not listed above.
UNKNOWN_STATE: list[Row] = [
    (constraint.name, flow.entity_type, flow.initial, {"state": "no_such_state"})
    for flow in worlds.flows()
    for constraint in flow.model._meta.constraints
    if constraint.name.endswith("_state_is_known")
]

ROWS = [
    *RUN, *WORKSTREAM, *TASK, *WORKER, *UET_WORKER, *PATCH_LEDGER, *TEST_GATE, *CIRCUIT_BREAKER,
    *INGESTION_JOB, *AGENT_JOB, *SUPERVISED_WORKER, *SUPERVISED_JOB, *PIPELINE_JOB, *UNKNOWN_STATE,
]  # fmt: skip

# A trigger refuses these before the constraint, even with the write guard disabled.
BEHIND_A_TRIGGER: list[Row] = [
    ("ingestion_job_attempts_not_negative", "ingestion_job", "pending", {"attempts": -1}),
]


def row_id(row: Row) -> str:
    name, _machine, state, bad = row
    return f"{name}: {state} with {', '.join(bad)}"


def put(entity: Any, bad: dict[str, Any]) -> None:
    """Updates the row as a transition does, with a new version: what is refused now is refused by a constraint."""
    type(entity).objects.filter(pk=entity.pk).update(version=models.F("version") + 1, **bad)


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_the_constraint_refuses_its_invalid_row(row, clock) -> None:
    name, machine, state, bad = row
    entity = worlds.bring_to(registry.flow(machine), state, clock)
    bad = {field: world.worker() if value == A_WORKER else value for field, value in bad.items()}
    before = world.trace(entity)

    with pytest.raises(IntegrityError, match=rf"\b{name}\b"), disable_write_guard():
        put(entity, bad)

    assert world.trace(entity) == before


@pytest.mark.parametrize("row", BEHIND_A_TRIGGER, ids=row_id)
def test_the_constraint_holds_without_the_triggers(row, clock) -> None:
    _name, machine, state, bad = row
    entity = worlds.bring_to(registry.flow(machine), state, clock)
    with triggers.disabled(connection), pytest.raises(IntegrityError, match="attempts"), transaction.atomic():
        put(entity, bad)


def test_every_constraint_is_tested() -> None:
    declared = {
        constraint.name
        for flow in worlds.flows()
        for constraint in flow.model._meta.constraints
        if isinstance(constraint, models.CheckConstraint)
    }
    missing = declared - {name for name, *_row in [*ROWS, *BEHIND_A_TRIGGER]}
    assert not missing, f"ROWS in this file must have a row that each of these refuses: {sorted(missing)}"


REQUIRED = [
    ("run", "phase"),
    ("workstream", "run"),
    ("workstream", "phase"),
    ("task", "workstream"),
    ("patch_ledger", "patch"),
    ("patch_ledger", "workstream"),
    ("patch_ledger", "phase"),
    ("test_gate", "phase"),
    ("test_gate", "command"),
    ("worker", "worker_type"),
    ("worker", "last_heartbeat"),
    ("uet_worker", "worker_type"),
    ("uet_worker", "last_heartbeat"),
    ("supervised_worker", "workspace_id"),
    ("supervised_job", "task_description"),
]


@pytest.mark.parametrize(("machine", "field"), REQUIRED, ids=[".".join(pair) for pair in REQUIRED])
def test_a_required_column_is_never_null(machine, field) -> None:
    entity = worlds.create_entity(registry.flow(machine))
    with pytest.raises(IntegrityError, match=r"(?i)not[ -]null"), disable_write_guard():
        put(entity, {field: None})


RELATIONS = [
    ("run", "phase_id"),
    ("workstream", "run_id"),
    ("task", "workstream_id"),
    ("task", "patch_id"),
    ("patch_ledger", "patch_id"),
    ("test_gate", "workstream_id"),
    ("supervised_job", "parent_job_id"),
]


@pytest.mark.parametrize(("machine", "column"), RELATIONS, ids=[".".join(pair) for pair in RELATIONS])
def test_a_relation_refers_to_an_existing_row(machine, column) -> None:
    entity = worlds.create_entity(registry.flow(machine))
    with triggers.disabled(connection):
        put(entity, {column: "nowhere"})
        with pytest.raises(IntegrityError), transaction.atomic():
            connection.check_constraints()
        put(entity, {column: getattr(entity, column)})


def test_a_run_canceled_before_its_start_has_no_start() -> None:
    run = world.fire(world.run(), "run_canceled", actor=world.operator())
    assert (run.started_at, run.completed_at) == (None, run.updated_at)
