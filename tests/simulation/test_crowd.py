"""A simulation that ends by itself leaves everything in order."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from statecore import integrity
from statecore.journal import Event
from statecore.kernel import registry
from statecore.machines import run, task
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.project import startup
from statecore.simulation import Crowd, NameTaken, RealWork, Report, Wishes
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)

WISHES = Wishes(agents=4, rate=400, seed=7, runs=4, failures=0.2)


def simulate(**wishes: Any) -> Report:
    return Crowd(replace(WISHES, **wishes)).run(lambda report: None)


def all_is_well() -> None:
    assert [str(finding) for finding in integrity.check_all()] == []


def nothing_is_in_anybodys_hands() -> None:
    assert not Task.objects.filter(state=task.State.RUNNING).exists()
    assert not Worker.objects.exclude(state="shutdown").exists()
    assert not TestGate.objects.filter(state__in=("PENDING", "RUNNING")).exists()
    assert not PatchLedger.objects.exclude(state__in=PatchLedger.flow.final).exists()


def test_it_ends_with_its_runs_and_leaves_everything_in_order() -> None:
    report = simulate()
    assert Run.objects.filter(retry_of=None).count() == 4
    assert not Run.objects.exclude(state__in=run.FINAL).exists()
    assert sum(report.told["runs"].values()) == report.told["plans"] == 4
    assert report.told["tasks_done"] == Task.objects.filter(state="completed").count() > 0
    nothing_is_in_anybodys_hands()
    all_is_well()


def test_it_ends_in_time_and_calls_off_what_is_unfinished() -> None:
    report = simulate(runs=None, seconds=2)
    assert 2 <= report.seconds < 15
    assert not Run.objects.exclude(state__in=run.FINAL).exists()
    nothing_is_in_anybodys_hands()
    all_is_well()


def test_without_failures_every_run_that_nobody_meddles_with_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statecore.simulation.operators.MEDDLES", 0)
    report = simulate(failures=0.0, neighbours=0, rate=1000)
    assert report.told["runs"] == {"succeeded": 4}
    assert not report.told["happened"].get("failed")


def test_the_same_seed_makes_the_same_runs() -> None:
    def submitted(label: str) -> set[Any]:
        fields = ("pk", "priority", "max_retries", "is_critical", "payload")
        rows = Task.objects.filter(pk__startswith=f"{label}-", retry_of=None).values_list(*fields)
        return {str(row).replace(f"{label}-", "") for row in rows}

    assert [simulate(runs=3).label for _ in range(2)] == ["sim7", "sim7.2"]
    assert submitted("sim7") == submitted("sim7.2") != set()


def test_the_first_workers_are_the_same_too() -> None:
    for _ in range(2):
        simulate(runs=1, neighbours=0)
    first = dict(Worker.objects.filter(pk__regex=r"^sim7-a\d+\.1$").values_list("pk", "capabilities"))
    second = dict(Worker.objects.filter(pk__regex=r"^sim7\.2-a\d+\.1$").values_list("pk", "capabilities"))
    assert first == {name.replace("sim7.2-", "sim7-"): skills for name, skills in second.items()} != {}


# What a lively simulation brings about, by machine and trigger.
HAPPENS = {
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


def test_every_machine_moves_and_what_can_happen_happens() -> None:
    report = simulate(agents=8, rate=400, runs=None, seconds=14, failures=0.3, seed=3)
    found = set(Event.objects.values_list("entity_type", "trigger"))
    assert {machine for machine, _trigger in found} == {flow.entity_type for flow in registry.flows()}
    assert HAPPENS - found == set()
    assert {"failed", "hung", "killed", "time-outs"} <= report.told["happened"].keys()
    nothing_is_in_anybodys_hands()
    the_operator_gave_reasons()
    all_is_well()


def the_operator_gave_reasons() -> None:
    assert not User.objects.get(username="simulator").has_usable_password()
    forced = [event.as_dict() for event in Event.objects.filter(kind="override")]
    assert {event["operator"] for event in forced} == {"simulator"}
    assert all(event["category"] and len(event["reason"]) >= 10 for event in forced)


def test_somebody_who_can_log_in_is_not_taken_for_the_simulator() -> None:
    User.objects.create_user("simulator", password="correct horse battery")
    with pytest.raises(NameTaken):
        Crowd(WISHES)


def test_the_simulator_does_not_stand_in_for_the_first_operator() -> None:
    Crowd(WISHES)
    assert startup.first_operator()
    assert startup.first_operator() is None


def test_real_work_is_refused() -> None:
    real = world.task()
    with pytest.raises(RealWork, match=real.pk):
        Crowd(WISHES)


def test_a_real_task_that_an_agent_is_given_is_handed_back() -> None:
    real = world.queued_task()
    with pytest.raises(RealWork, match=real.pk):
        simulate(beside_real_work=True, neighbours=0, runs=50)
    real.refresh_from_db()
    assert (real.state, real.last_error) == ("retrying", "a simulated agent does no real work")
    assert not Worker.objects.filter(state="busy").exists()


@pytest.mark.parametrize(("beside", "other"), [(False, "--beside-real-work"), (True, "let real tasks ask for")])
def test_whoever_meets_real_work_is_told_what_else_to_do(beside: bool, other: str) -> None:
    world.queued_task()
    with pytest.raises(CommandError, match=f"use a database of its own, or {other}"):
        call_command("simulate", agents=2, rate=500, seed=7, runs=50, neighbours=0, beside_real_work=beside)


def test_the_settings_of_the_installation_stay_as_they_are() -> None:
    before = settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS
    simulate(runs=1)
    after = settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS
    assert after == before


def test_a_pace_that_cannot_be_kept_is_told() -> None:
    report = simulate(rate=100_000, runs=3)
    assert report.rate < 90_000
    assert "of 100000 moves a second" in (report.shortfall or "")


def test_a_pace_is_kept() -> None:
    report = simulate(rate=20, runs=None, seconds=3)
    assert report.rate < 20 * 1.5


def test_the_command_closes_with_a_summary() -> None:
    out = StringIO()
    call_command("simulate", agents=2, rate=500, seed=7, runs=1, neighbours=0, failures=0, stdout=out)
    first, *rest = out.getvalue().splitlines()
    assert first.startswith("sim7: ")
    assert rest[0].startswith("plans     1 submitted, of their runs 1 ")
