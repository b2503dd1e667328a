"""The sweep groups what is stuck, blocked, alerting or undecided by its root cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore import scheduling, transitions
from statecore.delivery.sinks.alerts import Alerts
from statecore.delivery.sinks.counters import Counters
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.machines.workstream import Workstream
from statecore.operations.incidents import sweep
from statecore.records import Alert, AlertNotice, Incident, incident
from statecore.records import alert as alert_record
from tests.machines.worlds import fixed_clock
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db
# The sequencer numbers only committed events.
with_commits = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with fixed_clock() as traveller:
        yield traveller


@pytest.fixture
def later(clock: Any) -> Callable[..., None]:
    return lambda **duration: clock.shift(timedelta(**duration))


def open_incidents() -> dict[str, Incident]:
    sweep()
    return {each.key: each for each in Incident.objects.filter(resolved_at=None).order_by("pk")}


def histories(found: Incident) -> list[str]:
    return list(found.history.order_by("pk").values_list("action", flat=True))


def submit(run: str, *tasks: dict[str, Any]) -> None:
    plan = {
        "id": run,
        "phase": world.phase().pk,
        "start": True,
        "workstreams": [{"id": f"{run}-w", "tasks": list(tasks)}],
    }
    scheduling.submit_plan(plan, actor=THE_SYSTEM)


def fail(task_id: str) -> None:
    worker = world.idle_worker()
    world.forced(world.fire(Task.objects.get(pk=task_id), "worker_started", worker=worker.pk), "failed")


def test_all_that_waits_for_a_failed_task_is_one_incident(later) -> None:
    submit("r", {"id": "lint"}, *({"id": f"t{number}", "depends_on": ["lint"]} for number in range(20)))
    fail("lint")
    (found,) = open_incidents().values()

    assert found.key == "task lint"
    assert found.cause.startswith("Task lint failed")
    assert (found.counts, found.runs, found.rule) == ({"task": 20, "workstream": 1}, 1, "needs_decision")
    assert [(each["action"], each["entity_id"]) for each in found.actions][:1] == [("retry", "lint")]
    assert "force" not in str(found.actions)


def test_queued_tasks_without_a_worker_are_one_incident_before_they_are_late(later) -> None:
    submit("r", *({"id": f"t{number}", "required_capabilities": ["git"]} for number in range(28)))
    world.idle_worker(capabilities=["python"])
    assert open_incidents() == {}

    later(minutes=1)
    world.model("Worker").objects.update(last_heartbeat=now())
    (found,) = open_incidents().values()
    assert (found.key, found.cause, found.severity) == ("no_worker git", "No worker for `git`", "critical")
    assert (found.counts, found.runs, found.rule) == ({"task": 28}, 1, "no_worker")
    assert Alert.objects.get(resolved_at=None).detail == "No worker for `git`: 28 tasks wait"

    later(minutes=12)  # now they are late as well, and their own chain of causes ends at the same cause
    assert [each.key for each in open_incidents().values()] == ["no_worker git", "late worker.idle"]

    world.idle_worker(capabilities=["git"])
    Incident.objects.get(key="no_worker git").entities.update(checked_at=now() - timedelta(hours=1))
    assert "no_worker git" not in open_incidents()
    assert histories(Incident.objects.get(key="no_worker git")) == ["opened", "resolved"]


def test_a_silent_worker_and_its_tasks_are_one_incident(later) -> None:
    task = world.running_task()
    later(minutes=40)
    found = open_incidents()[f"worker {task.worker_id}"]
    assert found.counts == {"task": 1, "worker": 1}
    assert f"late {task.flow.entity_type}.running" not in open_incidents()


def test_late_entities_without_another_cause_share_one_by_state(later) -> None:
    for _ in range(3):
        world.run()
    later(hours=50)
    (found,) = open_incidents().values()
    assert (found.key, found.counts) == ("late run.pending", {"run": 3})
    assert found.cause == "3 runs have been pending for longer than expected"
    assert found.severity == "critical"


@with_commits
def test_an_alert_about_an_entity_is_its_incident(later) -> None:
    world.open_breaker("aider")
    catch_up(Counters(), Alerts())
    (found,) = open_incidents().values()
    assert (found.key, found.severity, found.rule) == ("circuit_breaker aider", "critical", "breaker_open")
    assert Alert.objects.get().incident == found
    incident.snooze(found.pk, "ada", now() + timedelta(hours=1))
    assert Alert.objects.get().is_silenced(now())
    incident.snooze(found.pk, "ada", None)
    assert not Alert.objects.get().is_silenced(now())
    world.forced(world.model("CircuitBreaker").objects.get(pk="aider"), "CLOSED")
    catch_up(Counters(), Alerts())
    assert open_incidents() == {}


def test_a_cause_that_comes_back_opens_its_incident_again(later) -> None:
    run = world.run()
    later(hours=50)
    (found,) = open_incidents().values()
    incident.acknowledge(found.pk, "ada")
    world.fire(run, "run_started")
    assert open_incidents() == {}

    world.forced(run, "pending")
    world.touched(run, state_entered_at=now() - timedelta(hours=50))
    (again,) = open_incidents().values()
    assert (again.pk, again.owner, again.acknowledged_at) == (found.pk, "ada", None)
    assert histories(again) == ["opened", "acknowledged", "resolved", "reopened"]


def test_sweeping_again_changes_nothing(later) -> None:
    submit("r", {"id": "lint"}, {"id": "t", "depends_on": ["lint"]})
    fail("lint")
    open_incidents()
    before = list(Incident.objects.values())
    with CaptureQueriesContext(connection) as queries:
        sweep()
    assert list(Incident.objects.values()) == before
    assert not [each["sql"] for each in queries if each["sql"].startswith(('UPDATE "statecore_incident"', "DELETE"))]


def test_a_retry_resolves_the_incident(later) -> None:
    submit("r", {"id": "lint"}, {"id": "t", "depends_on": ["lint"]})
    fail("lint")
    assert list(open_incidents()) == ["task lint"]
    transitions.retry(Task, "lint", actor=world.operator())
    assert open_incidents() == {}
    assert Workstream.objects.get(pk="r-w").state == "executing"


class TestEscalation:
    """Critical incidents that no operator acknowledges."""

    URLS = ("json://first.example", "json://second.example")

    @pytest.fixture(autouse=True)
    def channels(self, settings: Any) -> None:
        settings.STATECORE_ESCALATION_URLS, settings.STATECORE_ESCALATION_MINUTES = self.URLS, 15

    def receivers(self) -> list[str]:
        sweep()
        notices = AlertNotice.objects.filter(subject__contains="not acknowledged").order_by("pk")
        return list(notices.values_list("receiver", flat=True))

    def test_one_channel_after_the_other_is_notified(self, later) -> None:
        world.run()
        later(hours=50)
        assert self.receivers() == []
        later(minutes=15)
        assert self.receivers() == [alert_record.fingerprint(self.URLS[0])]
        assert len(self.receivers()) == 1
        later(minutes=15)
        assert self.receivers() == [*map(alert_record.fingerprint, self.URLS)]
        later(minutes=60)
        assert len(self.receivers()) == 2
        assert histories(Incident.objects.get()) == ["opened", "escalated", "escalated"]

    @pytest.mark.parametrize("how", ["acknowledge", "snooze"])
    def test_not_for_one_that_an_operator_has_seen(self, how: str, later) -> None:
        world.run()
        later(hours=50)
        (found,) = open_incidents().values()
        if how == "acknowledge":
            incident.acknowledge(found.pk, "ada")
        else:
            incident.snooze(found.pk, "ada", now() + timedelta(hours=1))
        later(minutes=20)
        assert self.receivers() == []


@with_commits
def test_a_silenced_alert_sends_no_notifications_also_when_it_opens_again(settings: Any, later) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://receiver.example",)
    world.open_breaker("aider")
    catch_up(Counters(), Alerts())
    assert AlertNotice.objects.count() == 1
    assert alert_record.silence(Alert.objects.get().pk, "ada", now() + timedelta(hours=1))
    breaker = world.model("CircuitBreaker").objects.get(pk="aider")
    world.forced(breaker, "CLOSED")
    catch_up(Counters(), Alerts())
    world.forced(breaker, "OPEN")
    catch_up(Counters(), Alerts())
    assert (Alert.objects.count(), AlertNotice.objects.count()) == (2, 1)
    later(hours=2)
    world.forced(breaker, "CLOSED")
    catch_up(Counters(), Alerts())
    assert AlertNotice.objects.count() == 2
