"""The integrity check reports what is wrong by name, and nothing else."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from statecore import transitions
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.agent_job import AgentJob
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.operations import integrity
from statecore.operations.integrity import invariants
from statecore.records import AgentJobEvent
from statecore.storage import triggers
from tests.support import world

pytestmark = pytest.mark.django_db


def findings_of(check: str) -> list[integrity.Finding]:
    return [finding for finding in integrity.check_all() if finding.check == check]


def tampered(queryset, **columns) -> None:
    with triggers.disabled(connection):
        queryset.update(**columns)


def test_a_sound_database_has_no_findings() -> None:
    world.task()
    assert integrity.check_all() == []
    assert integrity.check_recent() == []


def test_an_empty_database_has_no_findings() -> None:
    assert integrity.check_all() == []


def test_a_state_changed_without_an_event_is_an_error() -> None:
    task = world.task()
    tampered(Task.objects.filter(pk=task.pk), state="queued")
    (finding,) = findings_of("row")
    assert (finding.severity, finding.entity_type, finding.entity_id) == ("error", "task", task.pk)


def test_a_removed_row_is_found_by_its_events() -> None:
    task = world.task()
    with triggers.disabled(connection):
        Task.objects.filter(pk=task.pk)._raw_delete("default")
    assert [finding.entity_id for finding in findings_of("row")] == [task.pk]


def test_a_missing_trigger_is_an_error() -> None:
    triggers.remove(connection)
    assert findings_of("triggers")
    triggers.install(connection)
    assert not findings_of("triggers")


def test_a_final_state_that_was_left_is_found_in_the_journal() -> None:
    task = world.task()
    tampered(Event.objects.filter(entity_id=task.pk), kind="normal", from_state="completed")
    assert [finding.entity_id for finding in findings_of("final")] == [task.pk]


def test_a_queued_task_whose_dependency_is_open_is_a_warning() -> None:
    first = world.task()
    second = world.task(workstream=first.workstream_id)
    transitions.transition(Task, second.pk, "scheduler_assigned", actor=THE_SYSTEM)
    world.link(second, "depends_on", first)
    (finding,) = findings_of("queued_tasks_have_their_dependencies")
    assert (finding.severity, finding.entity_id) == ("warning", second.pk)


def test_a_worker_whose_load_is_not_what_it_runs_is_a_warning() -> None:
    worker = world.idle_worker()
    Worker.objects.filter(pk=worker.pk).update(current_load=1)
    assert [finding.entity_id for finding in findings_of("load_is_the_number_of_running_tasks")] == [worker.pk]


def test_an_agent_job_that_is_not_the_fold_of_its_log_is_an_error() -> None:
    job = transitions.create(AgentJob, actor=THE_SYSTEM).entity
    tampered(AgentJobEvent.objects.filter(job=job.pk), type="job_failed")
    assert [finding.entity_id for finding in findings_of("log")] == [job.pk]


def test_the_invariant_sweep_reaches_every_row_in_batches(monkeypatch) -> None:
    monkeypatch.setattr(invariants, "_places", {})
    workers = [world.idle_worker() for _ in range(5)]
    Worker.objects.update(current_load=1)

    rounds = [{finding.entity_id for finding in integrity.sweep_invariants(batch=2)} for _ in range(4)]

    assert [len(found) for found in rounds] == [2, 2, 1, 2]
    assert set.union(*rounds) == {worker.pk for worker in workers}


def test_the_sweep_checks_active_rows_before_finished_ones(monkeypatch) -> None:
    monkeypatch.setattr(invariants, "_places", {})
    live = world.idle_worker()
    ended = [world.forced(world.idle_worker(), "shutdown") for _ in range(5)]
    Worker.objects.update(current_load=1)

    first, *others = [{finding.entity_id for finding in integrity.sweep_invariants(batch=2)} for _ in range(3)]

    assert first == {live.pk, ended[-1].pk, ended[-2].pk}
    assert {worker.pk for worker in ended} < first.union(*others)


def run_command(**options) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("integrity", stdout=out, **options)
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue()
    return 0, out.getvalue()


@pytest.mark.parametrize("recent", [True, False])
def test_the_command_succeeds_on_a_sound_database(recent: bool) -> None:
    world.task()
    assert run_command(recent=recent) == (0, "0 errors, 0 warnings\n")


@pytest.mark.parametrize("recent", [True, False])
def test_the_command_fails_on_corruption_and_names_the_row(recent: bool) -> None:
    task = world.task()
    tampered(Event.objects.filter(entity_id=task.pk), actor="nobody")
    code, output = run_command(recent=recent)
    assert code == 1
    assert task.pk in output


def test_the_command_prints_json() -> None:
    task = world.task()
    tampered(Event.objects.filter(entity_id=task.pk), actor="nobody")
    _code, output = run_command(json=True)
    assert json.loads(output.splitlines()[0])["entity_id"] == task.pk
