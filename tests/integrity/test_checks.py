"""Integrity finds what is wrong, names it, and is quiet about what is right."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from statecore import door, integrity
from statecore.integrity import invariants
from statecore.journal import Event
from statecore.kernel import triggers
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.agent_job import AgentJob
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.records import AgentJobEvent
from tests.support import world

pytestmark = pytest.mark.django_db


def found(check: str) -> list[integrity.Finding]:
    return [finding for finding in integrity.check_all() if finding.check == check]


def tampered(queryset, **columns) -> None:
    with triggers.lowered(connection):
        queryset.update(**columns)


def test_a_sound_database_has_no_findings() -> None:
    world.task()
    assert integrity.check_all() == []
    assert integrity.check_recent() == []


def test_an_empty_database_has_no_findings() -> None:
    assert integrity.check_all() == []


def test_a_row_moved_behind_the_journal_is_an_error() -> None:
    task = world.task()
    tampered(Task.objects.filter(pk=task.pk), state="queued")
    (finding,) = found("row")
    assert (finding.severity, finding.entity_type, finding.entity_id) == ("error", "task", task.pk)


def test_a_removed_row_is_found_by_its_events() -> None:
    task = world.task()
    with triggers.lowered(connection):
        Task.objects.filter(pk=task.pk)._raw_delete("default")
    assert [finding.entity_id for finding in found("row")] == [task.pk]


def test_a_missing_trigger_is_an_error() -> None:
    triggers.remove(connection)
    assert found("triggers")
    triggers.install(connection)
    assert not found("triggers")


def test_a_final_state_that_was_left_is_found_in_the_journal() -> None:
    task = world.task()
    tampered(Event.objects.filter(entity_id=task.pk), kind="normal", from_state="completed")
    assert [finding.entity_id for finding in found("final")] == [task.pk]


def test_a_queued_task_whose_dependency_is_open_is_a_warning() -> None:
    first = world.task()
    second = world.task(workstream=first.workstream_id)
    door.transition(Task, second.pk, "scheduler_assigned", actor=THE_SYSTEM)
    second.depends_on.add(first.pk)
    (finding,) = found("queued_tasks_have_their_dependencies")
    assert (finding.severity, finding.entity_id) == ("warning", second.pk)


def test_a_worker_whose_load_is_not_what_it_runs_is_a_warning() -> None:
    worker = world.idle_worker()
    Worker.objects.filter(pk=worker.pk).update(current_load=1)
    assert [finding.entity_id for finding in found("load_is_the_number_of_running_tasks")] == [worker.pk]


def test_an_agent_job_that_is_not_the_fold_of_its_log_is_an_error() -> None:
    job = door.create(AgentJob, actor=THE_SYSTEM).entity
    tampered(AgentJobEvent.objects.filter(job=job.pk), type="job_failed")
    assert [finding.entity_id for finding in found("log")] == [job.pk]


def test_the_sweep_of_the_invariants_comes_past_everybody_a_batch_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(invariants, "_places", {})
    workers = [world.idle_worker() for _ in range(5)]
    Worker.objects.update(current_load=1)

    rounds = [{finding.entity_id for finding in integrity.sweep_invariants(batch=2)} for _ in range(4)]

    assert [len(found) for found in rounds] == [2, 2, 1, 2]
    assert set.union(*rounds) == {worker.pk for worker in workers}


def test_the_sweep_sees_what_goes_on_before_much_that_has_ended(monkeypatch) -> None:
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
def test_the_command_is_content_with_a_sound_database(recent: bool) -> None:
    world.task()
    assert run_command(recent=recent) == (0, "0 errors, 0 warnings\n")


@pytest.mark.parametrize("recent", [True, False])
def test_the_command_fails_on_corruption_and_names_the_row(recent: bool) -> None:
    task = world.task()
    tampered(Event.objects.filter(entity_id=task.pk), actor="nobody")
    code, said = run_command(recent=recent)
    assert code == 1
    assert task.pk in said


def test_the_command_speaks_json() -> None:
    task = world.task()
    tampered(Event.objects.filter(entity_id=task.pk), actor="nobody")
    _code, said = run_command(json=True)
    assert json.loads(said.splitlines()[0])["entity_id"] == task.pk
