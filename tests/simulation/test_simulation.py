"""A simulation that ends leaves no unfinished work and a consistent database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from statecore.devtools.simulation import Options, RealWorkFound, Report, Simulation, UsernameTaken
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines import run, task
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.operations import integrity
from statecore.project import startup
from statecore.transitions import Outcome
from tests.support import world
from tests.support.waiting import has_lock_waiters, until

pytestmark = pytest.mark.django_db(transaction=True)

OPTIONS = Options(agents=4, rate=400, seed=7, runs=4, failures=0.2)


def simulate(**changes: Any) -> Report:
    return Simulation(replace(OPTIONS, **changes)).run(lambda report: None)


def assert_consistent() -> None:
    assert [str(finding) for finding in integrity.check_all()] == []


def assert_no_unfinished_work() -> None:
    assert not Task.objects.filter(state=task.State.RUNNING).exists()
    assert not Worker.objects.exclude(state="shutdown").exists()
    assert not TestGate.objects.filter(state__in=("PENDING", "RUNNING")).exists()
    assert not PatchLedger.objects.exclude(state__in=PatchLedger.flow.final).exists()


def test_a_simulation_ends_with_its_runs_and_leaves_nothing_unfinished() -> None:
    report = simulate()
    assert Run.objects.filter(retry_of=None).count() == 4
    assert not Run.objects.exclude(state__in=run.FINAL).exists()
    assert sum(report.counts["runs"].values()) == report.counts["plans"] == 4
    assert report.counts["tasks_done"] == Event.objects.filter(entity_type="task", to_state="completed").count() > 0
    assert_no_unfinished_work()
    assert_consistent()


@pytest.mark.postgres
def test_a_task_that_completes_in_a_later_transaction_is_counted() -> None:
    """The row is locked when the gate passes, so the task completes after the commit and not as its consequence."""
    simulation = Simulation(OPTIONS)
    workstream = world.workstream(run=world.run(phase=simulation.context.names.phase))
    gate = world.fire(world.gate(workstream=workstream), "gate_started")
    waiting = world.forced(world.task(workstream=workstream, gates=[gate.pk]), "validating")

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            Task.objects.select_for_update().get(pk=waiting.pk)
            passing = pool.submit(pass_gate, simulation, gate.pk)
            until(lambda: passing.done() or has_lock_waiters())
        assert passing.result().caused == ()

    assert Task.objects.get(pk=waiting.pk).state == "completed"
    assert simulation.report().counts["tasks_done"] == 1


def pass_gate(simulation: Simulation, gate: str) -> Outcome:
    try:
        return simulation.context.fire(TestGate, gate, "gate_passed", THE_SYSTEM, exit_code=0)
    finally:
        connections.close_all()


def test_a_simulation_ends_in_time_and_cancels_unfinished_runs() -> None:
    report = simulate(runs=None, seconds=2)
    assert 2 <= report.seconds < 15
    assert not Run.objects.exclude(state__in=run.FINAL).exists()
    assert_no_unfinished_work()
    assert_consistent()


def test_without_failures_and_interventions_every_run_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statecore.devtools.simulation.operator.INTERVENTIONS", 0)
    report = simulate(failures=0.0, other_machines=0, rate=1000)
    assert report.counts["runs"] == {"succeeded": 4}
    assert not report.counts["incidents"].get("failed")


def test_the_same_seed_submits_the_same_runs() -> None:
    def submitted(label: str) -> set[Any]:
        fields = ("pk", "priority", "max_retries", "is_critical", "payload")
        rows = Task.objects.filter(pk__startswith=f"{label}-", retry_of=None).values_list(*fields)
        return {str(row).replace(f"{label}-", "") for row in rows}

    assert [simulate(runs=3).label for _ in range(2)] == ["sim7", "sim7.2"]
    assert submitted("sim7") == submitted("sim7.2") != set()


def test_the_same_seed_registers_the_same_first_workers() -> None:
    for _ in range(2):
        simulate(runs=1, other_machines=0)
    first = dict(Worker.objects.filter(pk__regex=r"^sim7-a\d+\.1$").values_list("pk", "capabilities"))
    second = dict(Worker.objects.filter(pk__regex=r"^sim7\.2-a\d+\.1$").values_list("pk", "capabilities"))
    assert first == {name.replace("sim7.2-", "sim7-"): skills for name, skills in second.items()} != {}


# Triggers that a simulation with many failures fires, by machine.
FIRED = {
    ("circuit_breaker", "failure_threshold_exceeded"),
    ("patch_ledger", "apply_retried"),
    ("patch_ledger", "commit_succeeded"),
    ("pipeline_job", "finish"),
    ("run", "all_workstreams_completed"),
    ("run", "run_canceled"),
    ("task", "cascade_cancelled"),
    ("task", "dependency_satisfied"),
    ("task", "execution_failed"),
    ("task", "gate_failed"),
    ("task", "retry_delay_elapsed"),
    ("task", "timeout_exceeded"),
    ("task", "validation_passed"),
    ("test_gate", "gate_failed"),
    ("test_gate", "retried"),
    ("worker", "manual_override"),
    ("worker", "shutdown_requested"),
}

SIMULATED = {
    "agent_job", "circuit_breaker", "ingestion_job", "patch_ledger", "pipeline_job", "run", "supervised_job",
    "supervised_worker", "task", "test_gate", "uet_worker", "worker", "workstream",
}  # fmt: skip
INCIDENTS = {"failed", "hung", "killed", "timeouts"}


def test_a_simulation_covers_its_machines_and_the_main_triggers() -> None:
    incidents: set[str] = set()
    found: set[tuple[str, str]] = set()
    # How much one simulation does in its seconds depends on the machine.
    for seed in range(3, 9):
        report = simulate(agents=8, rate=400, runs=None, seconds=7, failures=0.3, seed=seed)
        incidents |= report.counts["incidents"].keys()
        found = set(Event.objects.values_list("entity_type", "trigger"))
        if found >= FIRED and incidents >= INCIDENTS:
            break
    assert SIMULATED - {machine for machine, _trigger in found} == set()
    assert FIRED - found == set()
    assert INCIDENTS - incidents == set()
    assert_no_unfinished_work()
    assert_overrides_have_reasons()
    assert_consistent()


def assert_overrides_have_reasons() -> None:
    assert not User.objects.get(username="simulator").has_usable_password()
    forced = [event.as_dict() for event in Event.objects.filter(kind="override")]
    assert {event["operator"] for event in forced} == {"simulator"}
    assert all(event["category"] and len(event["reason"]) >= 10 for event in forced)


def test_an_account_that_can_log_in_is_not_used_as_the_simulator() -> None:
    User.objects.create_user("simulator", password="correct horse battery")
    with pytest.raises(UsernameTaken):
        Simulation(OPTIONS)


def test_the_simulator_does_not_count_as_the_first_operator() -> None:
    Simulation(OPTIONS)
    assert startup.create_first_operator()
    assert startup.create_first_operator() is None


def test_a_simulation_beside_real_work_is_refused() -> None:
    real = world.task()
    with pytest.raises(RealWorkFound, match=real.pk):
        Simulation(OPTIONS)


def test_a_real_task_claimed_by_an_agent_is_handed_back() -> None:
    real = world.queued_task()
    with pytest.raises(RealWorkFound, match=real.pk):
        simulate(beside_real_work=True, other_machines=0, runs=50)
    real.refresh_from_db()
    assert (real.state, real.last_error) == ("retrying", "simulated agents do no real work")
    assert not Worker.objects.filter(state="busy").exists()


@pytest.mark.parametrize(("beside", "alternative"), [(False, "--beside-real-work"), (True, "let real tasks require")])
def test_the_refusal_beside_real_work_names_an_alternative(beside: bool, alternative: str) -> None:
    world.queued_task()
    with pytest.raises(CommandError, match=f"use a separate database, or {alternative}"):
        call_command("simulate", agents=2, rate=500, seed=7, runs=50, other_machines=0, beside_real_work=beside)


def test_the_retry_settings_are_restored() -> None:
    before = settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS
    simulate(runs=1)
    after = settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS
    assert after == before


def test_a_rate_that_cannot_be_reached_is_reported() -> None:
    report = simulate(rate=100_000, runs=3)
    assert report.rate < 90_000
    assert "of 100000 transitions per second" in (report.shortfall or "")


def test_the_rate_is_not_exceeded() -> None:
    report = simulate(rate=20, runs=None, seconds=3)
    assert report.rate < 20 * 1.5


def test_the_command_ends_with_a_summary() -> None:
    out = StringIO()
    call_command("simulate", agents=2, rate=500, seed=7, runs=1, other_machines=0, failures=0, stdout=out)
    first, *rest = out.getvalue().splitlines()
    assert first.startswith("sim7: ")
    assert rest[0].startswith("plans     1 submitted; runs: 1 ")
