"""The nine rules: each raised once, resolved by itself, and told to whoever wants to know."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.records import Alert, AlertNotice
from statecore.records.alert import acknowledge
from statecore.sinks import alert_rules, notices
from statecore.sinks.alert_rules import COUNT_RULES, ENTRY_RULES
from statecore.sinks.alerts import Alerts, evaluate
from statecore.sinks.counters import Counters
from tests.support import world
from tests.support.plans import over_live_rows, swept, words_of_plan
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)
MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(MONDAY, tick=False) as traveller:
        yield traveller


def judged() -> None:
    """All that has happened is delivered and judged, twice: nothing is raised a second time."""
    for _ in range(2):
        catch_up(Counters(), Alerts())
        evaluate(now())


def open_alerts(rule: str) -> list[str]:
    return list(Alert.objects.filter(rule=rule, resolved_at=None).values_list("key", flat=True))


def raised(rule: str) -> int:
    return Alert.objects.filter(rule=rule).count()


def test_there_are_nine_rules() -> None:
    assert len({rule.name for rule in (*ENTRY_RULES, *COUNT_RULES)}) == 9


def test_failure_rate(clock) -> None:
    for _ in range(9):
        world.queued_task()
    world.forced(world.run(), "failed")
    judged()
    assert open_alerts("failure_rate") == []  # an override is not a failure

    for _ in range(2):
        world.fire(world.created("UetWorker", worker_type="test"), "spawn_failed")
    judged()
    assert open_alerts("failure_rate") == ["failures"]
    assert Alert.objects.get(rule="failure_rate").facts == {"count": 2, "of": 12, "minutes": 5.0}

    clock.shift(timedelta(minutes=7))
    judged()
    assert (open_alerts("failure_rate"), raised("failure_rate")) == ([], 1)


def test_override_spike(clock) -> None:
    for _ in range(5):
        world.forced(world.run(), "failed")
    judged()
    assert open_alerts("override_spike") == []

    world.forced(world.run(), "failed")
    judged()
    assert open_alerts("override_spike") == ["overrides"]

    clock.shift(timedelta(minutes=12))
    judged()
    assert (open_alerts("override_spike"), raised("override_spike")) == ([], 1)


def test_stuck(clock) -> None:
    run = world.run()
    deadline = run.flow.deadline("pending")
    clock.shift(2 * deadline - timedelta(seconds=1))
    judged()
    assert open_alerts("stuck") == []

    clock.shift(timedelta(seconds=2))
    judged()
    assert open_alerts("stuck") == ["run.pending"]
    assert Alert.objects.get(rule="stuck").facts == {"count": 1, "ids": [run.pk]}

    world.fire(run, "run_started")
    judged()
    assert (open_alerts("stuck"), raised("stuck")) == ([], 1)


def test_stuck_is_measured_from_the_heartbeat_where_a_machine_says_so(clock) -> None:
    worker = world.idle_worker()
    clock.shift(2 * worker.flow.deadline("idle") + timedelta(seconds=1))
    world.touched(worker, last_heartbeat=now())
    judged()
    assert open_alerts("stuck") == []


@pytest.mark.parametrize(("entity_type", "state"), [("task", "running"), ("worker", "idle")])
def test_stuck_is_found_by_an_index_over_live_rows(entity_type: str, state: str) -> None:
    flow = registry.flow(entity_type)
    swept(flow.model)
    with CaptureQueriesContext(connection) as asked:
        alert_rules._stuck(flow, state, now())
    (query,) = asked

    plan = words_of_plan(query["sql"])
    assert any(name in plan for name in over_live_rows(entity_type)), plan


def test_breaker_open(clock) -> None:
    breaker = world.created("CircuitBreaker", id="tool_a")
    world.forced(breaker, "OPEN")
    judged()
    assert open_alerts("breaker_open") == ["tool_a"]

    for state in ("HALF_OPEN", "OPEN", "HALF_OPEN"):
        world.forced(breaker, state)
    judged()
    assert (open_alerts("breaker_open"), raised("breaker_open")) == (["tool_a"], 1)

    world.forced(breaker, "CLOSED")
    judged()
    assert (open_alerts("breaker_open"), raised("breaker_open")) == ([], 1)


def test_rollback(clock) -> None:
    patch = world.forced(world.patch(), "rolled_back")
    judged()
    assert open_alerts("rollback") == [patch.pk]

    clock.shift(timedelta(minutes=61))
    judged()
    assert (open_alerts("rollback"), raised("rollback")) == ([], 1)


def test_worker_unresponsive(clock) -> None:
    worker = world.idle_worker()
    world.forced(worker, "unresponsive")
    judged()
    assert open_alerts("worker_unresponsive") == [worker.pk]

    world.forced(worker, "idle")
    judged()
    assert (open_alerts("worker_unresponsive"), raised("worker_unresponsive")) == ([], 1)


def test_retry_rate(clock) -> None:
    for _ in range(8):
        task = world.running_task()
        world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt)
    for _ in range(2):
        task = world.running_task(max_retries=3)
        world.fire(task, "execution_failed", error="no", attempt=task.attempt)
    judged()
    assert open_alerts("retry_rate") == []  # 2 of 10 are not more than 20 %

    task = world.running_task(max_retries=3)
    world.fire(task, "execution_failed", error="no", attempt=task.attempt)
    judged()
    assert open_alerts("retry_rate") == ["retries"]

    clock.shift(timedelta(minutes=12))
    judged()
    assert (open_alerts("retry_rate"), raised("retry_rate")) == ([], 1)


def test_quarantined_patches(clock) -> None:
    for _ in range(3):
        world.forced(world.patch(), "quarantined")
    judged()
    assert open_alerts("quarantined_patches") == []

    world.forced(world.patch(), "quarantined")
    judged()
    assert open_alerts("quarantined_patches") == ["quarantined"]

    clock.shift(timedelta(minutes=62))
    judged()
    assert (open_alerts("quarantined_patches"), raised("quarantined_patches")) == ([], 1)


def test_blocked_tasks(clock) -> None:
    tasks = [world.forced(world.task(), "blocked") for _ in range(5)]
    judged()
    assert open_alerts("blocked_tasks") == []

    tasks.append(world.forced(world.task(), "blocked"))
    judged()
    assert open_alerts("blocked_tasks") == ["blocked"]

    world.forced(tasks[0], "pending")
    judged()
    assert (open_alerts("blocked_tasks"), raised("blocked_tasks")) == ([], 1)


def test_a_limit_is_a_setting(clock, settings) -> None:
    settings.STATECORE_ALERTS = {**settings.STATECORE_ALERTS, "blocked_count": 0}
    world.forced(world.task(), "blocked")
    judged()

    assert open_alerts("blocked_tasks") == ["blocked"]


def test_what_is_over_may_begin_again(clock) -> None:
    worker = world.idle_worker()
    for _ in range(2):
        world.forced(worker, "unresponsive")
        world.forced(worker, "idle")
    judged()

    assert (open_alerts("worker_unresponsive"), raised("worker_unresponsive")) == ([], 2)


def test_an_alert_is_acknowledged_once() -> None:
    worker = world.forced(world.idle_worker(), "unresponsive")
    catch_up(Alerts())
    alert = Alert.objects.get(key=worker.pk)

    assert acknowledge(alert.pk, "ada")
    assert not acknowledge(alert.pk, "bob")
    assert Alert.objects.get().as_dict()["acknowledged_by"] == "ada"
    assert open_alerts("worker_unresponsive") == [worker.pk]


@pytest.fixture
def receiver() -> Iterator[http.server.HTTPServer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10  # for who has called and says nothing

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.heard.append(json.loads(body))
            self.send_response(self.server.answer)
            self.end_headers()

        def log_message(self, *args) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.heard, server.answer = [], 200
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_a_notice_is_sent_for_the_beginning_and_the_end(receiver, settings) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://user:hunter2@127.0.0.1:{receiver.server_port}/",)
    worker = world.forced(world.idle_worker(id="w1"), "unresponsive")
    catch_up(Alerts())
    world.forced(worker, "idle")
    catch_up(Alerts())

    assert notices.send_due() == 2
    assert notices.send_due() == 0
    assert [said["title"] for said in receiver.heard] == [
        "WARNING: worker w1 does not respond",
        "resolved: worker w1 does not respond",
    ]


def test_a_notice_that_fails_is_tried_again_and_tells_no_secret(receiver, settings, caplog) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://user:hunter2@127.0.0.1:{receiver.server_port}/",)
    receiver.answer = 500
    with time_machine.travel(MONDAY, tick=False) as clock:
        world.forced(world.idle_worker(), "unresponsive")
        catch_up(Alerts())
        assert notices.send_due() == 0
        assert notices.send_due() == 0  # not before its time
        assert len(receiver.heard) == 1

        receiver.answer = 200
        clock.shift(timedelta(minutes=1))
        assert notices.send_due() == 1
    assert AlertNotice.objects.get().attempts == 2
    assert "hunter2" not in caplog.text
    assert str(receiver.server_port) not in caplog.text


def test_a_notice_is_given_up_in_the_end(settings) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://127.0.0.1:1/",)
    with time_machine.travel(MONDAY, tick=False) as clock:
        world.forced(world.idle_worker(), "unresponsive")
        catch_up(Alerts())
        for _ in range(notices.MOST_ATTEMPTS):
            notices.send_due()
            clock.shift(notices.LONGEST_WAIT)
        assert AlertNotice.objects.get().done_at is not None
