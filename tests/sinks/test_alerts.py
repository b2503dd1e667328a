"""The alert rules: each alert is raised once, resolved automatically, and notified."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore import scheduling, transitions
from statecore.delivery.sinks import alert_rules, notices
from statecore.delivery.sinks.alert_rules import RULES
from statecore.delivery.sinks.alerts import Alerts, evaluate
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.trends import Trends
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.read_models.stuck import list_stuck, recover_stalled
from statecore.records import Alert, AlertNotice
from statecore.records.alert import acknowledge
from statecore.scheduling import deadlines, timers
from statecore.transitions import waivers
from tests.support import world
from tests.support.plans import explain_query, partial_indexes, vacuum_tables
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)
MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(MONDAY, tick=False) as traveller:
        yield traveller


def evaluate_rules() -> None:
    """Deliver all events and evaluate the rules twice, so that duplicates would show."""
    for _ in range(2):
        catch_up(Counters(), Trends(), Alerts())
        evaluate(now())


def open_alerts(rule: str) -> list[str]:
    return list(Alert.objects.filter(rule=rule, resolved_at=None).values_list("key", flat=True))


def count_raised(rule: str) -> int:
    return Alert.objects.filter(rule=rule).count()


def test_rule_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names) > 0


def test_failure_rate(clock) -> None:
    for _ in range(9):
        world.queued_task()
    world.forced(world.run(), "failed")
    evaluate_rules()
    assert open_alerts("failure_rate") == []  # one of ten, by an override

    for _ in range(2):
        world.fire(world.created("UetWorker", worker_type="test"), "spawn_failed")
    evaluate_rules()
    assert open_alerts("failure_rate") == ["failures"]
    assert Alert.objects.get(rule="failure_rate").facts == {"count": 3, "of": 12, "minutes": 5.0}

    clock.shift(timedelta(minutes=7))
    evaluate_rules()
    assert (open_alerts("failure_rate"), count_raised("failure_rate")) == ([], 1)


def test_override_spike(clock) -> None:
    for _ in range(5):
        world.forced(world.run(), "failed")
    evaluate_rules()
    assert open_alerts("override_spike") == []

    world.forced(world.run(), "failed")
    evaluate_rules()
    assert open_alerts("override_spike") == ["overrides"]

    clock.shift(timedelta(minutes=12))
    evaluate_rules()
    assert (open_alerts("override_spike"), count_raised("override_spike")) == ([], 1)


def test_stuck(clock) -> None:
    run = world.run()
    deadline = run.flow.deadline("pending")
    clock.shift(2 * deadline - timedelta(seconds=1))
    evaluate_rules()
    assert open_alerts("stuck") == []

    clock.shift(timedelta(seconds=2))
    evaluate_rules()
    assert open_alerts("stuck") == ["run.pending"]
    assert Alert.objects.get(rule="stuck").facts == {"count": 1, "ids": [run.pk]}

    world.fire(run, "run_started")
    evaluate_rules()
    assert (open_alerts("stuck"), count_raised("stuck")) == ([], 1)


def test_stuck_is_measured_from_the_heartbeat_where_declared(clock) -> None:
    worker = world.idle_worker()
    clock.shift(2 * worker.flow.deadline("idle") + timedelta(seconds=1))
    world.touched(worker, last_heartbeat=now())
    evaluate_rules()
    assert open_alerts("stuck") == []


def test_no_progress(clock, settings) -> None:
    settings.STATECORE_PROGRESS_SECONDS = 600
    task = world.running_task(timeout_sec=7200)
    progress = {(task.pk, 1): {"fraction": 0.5, "detail": ""}}
    for _minute in range(11):
        scheduling.record_heartbeat(task.worker_id, actor=world.AGENT, progress=progress)
        assert open_alerts("no_progress") == []
        clock.shift(60)
    evaluate_rules()
    alert = Alert.objects.get(rule="no_progress", resolved_at=None)
    assert alert.facts == {"count": 1, "ids": [task.pk]}
    assert alert.detail == f"task {task.pk} is alive but without progress, since 2026-03-02 09:00:00 UTC"

    progress = {(task.pk, 1): {"fraction": 0.6, "detail": ""}}
    scheduling.record_heartbeat(task.worker_id, actor=world.AGENT, progress=progress)
    evaluate_rules()
    assert (open_alerts("no_progress"), count_raised("no_progress")) == ([], 1)


@pytest.mark.parametrize(("entity_type", "state"), [("task", "running"), ("worker", "idle")])
def test_stuck_rows_are_found_with_an_index_over_active_rows(entity_type: str, state: str) -> None:
    flow = registry.flow(entity_type)
    vacuum_tables(flow.model)
    with CaptureQueriesContext(connection) as queries:
        list(deadlines.select_stuck(flow, state, now())[: alert_rules.MAX_STUCK_IDS])
        deadlines.select_stuck(flow, state, now()).count()
    listed, counted = queries

    for query in (listed, counted):
        plan = explain_query(query["sql"])
        assert any(name in plan for name in partial_indexes(entity_type)), plan


def test_breaker_open(clock) -> None:
    breaker = world.created("CircuitBreaker", id="tool_a")
    world.forced(breaker, "OPEN")
    evaluate_rules()
    assert open_alerts("breaker_open") == ["tool_a"]

    for state in ("HALF_OPEN", "OPEN", "HALF_OPEN"):
        world.forced(breaker, state)
    evaluate_rules()
    assert (open_alerts("breaker_open"), count_raised("breaker_open")) == (["tool_a"], 1)

    world.forced(breaker, "CLOSED")
    evaluate_rules()
    assert (open_alerts("breaker_open"), count_raised("breaker_open")) == ([], 1)


def test_rollback(clock) -> None:
    patch = world.rolled_back_patch()
    evaluate_rules()
    assert open_alerts("rollback") == [patch.pk]

    clock.shift(timedelta(minutes=61))
    evaluate_rules()
    assert (open_alerts("rollback"), count_raised("rollback")) == ([], 1)


def test_worker_unresponsive(clock) -> None:
    worker = world.idle_worker()
    world.forced(worker, "unresponsive")
    evaluate_rules()
    assert open_alerts("worker_unresponsive") == [worker.pk]

    world.forced(worker, "idle")
    evaluate_rules()
    assert (open_alerts("worker_unresponsive"), count_raised("worker_unresponsive")) == ([], 1)


def test_retry_rate(clock) -> None:
    for _ in range(8):
        task = world.running_task()
        world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt)
    for _ in range(2):
        task = world.running_task(max_retries=3)
        world.fire(task, "execution_failed", error="no", attempt=task.attempt)
    evaluate_rules()
    assert open_alerts("retry_rate") == []  # 2 of 10 are not more than 20 %

    task = world.running_task(max_retries=3)
    world.fire(task, "execution_failed", error="no", attempt=task.attempt)
    evaluate_rules()
    assert open_alerts("retry_rate") == ["retries"]

    clock.shift(timedelta(minutes=12))
    evaluate_rules()
    assert (open_alerts("retry_rate"), count_raised("retry_rate")) == ([], 1)


def test_quarantined_patches(clock) -> None:
    for _ in range(3):
        world.forced(world.patch(), "quarantined")
    evaluate_rules()
    assert open_alerts("quarantined_patches") == []

    world.forced(world.patch(), "quarantined")
    evaluate_rules()
    assert open_alerts("quarantined_patches") == ["quarantined"]

    clock.shift(timedelta(minutes=62))
    evaluate_rules()
    assert (open_alerts("quarantined_patches"), count_raised("quarantined_patches")) == ([], 1)


@pytest.mark.usefixtures("machines_in_isolation")
def test_blocked_tasks(clock) -> None:
    tasks = [world.forced(world.task(), "blocked") for _ in range(5)]
    evaluate_rules()
    assert open_alerts("blocked_tasks") == []

    tasks.append(world.forced(world.task(), "blocked"))
    evaluate_rules()
    assert open_alerts("blocked_tasks") == ["blocked"]

    world.forced(tasks[0], "pending")
    evaluate_rules()
    assert (open_alerts("blocked_tasks"), count_raised("blocked_tasks")) == ([], 1)


@pytest.mark.usefixtures("machines_in_isolation")
def test_a_limit_is_a_setting(clock, settings) -> None:
    settings.STATECORE_ALERTS = {**settings.STATECORE_ALERTS, "blocked_count": 0}
    world.forced(world.task(), "blocked")
    evaluate_rules()

    assert open_alerts("blocked_tasks") == ["blocked"]


def test_a_resolved_alert_may_be_raised_again(clock) -> None:
    worker = world.idle_worker()
    for _ in range(2):
        world.forced(worker, "unresponsive")
        world.forced(worker, "idle")
    evaluate_rules()

    assert (open_alerts("worker_unresponsive"), count_raised("worker_unresponsive")) == ([], 2)


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
        timeout = 10  # for a client that connects and sends nothing

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.received.append(json.loads(body))
            self.server.during()
            self.send_response(self.server.answer)
            self.end_headers()

        def log_message(self, *args) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.received, server.answer, server.during = [], 200, lambda: None
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_a_notification_is_sent_when_an_alert_opens_and_resolves(receiver, settings) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://user:hunter2@127.0.0.1:{receiver.server_port}/",)
    worker = world.forced(world.idle_worker(id="w1"), "unresponsive")
    catch_up(Alerts())
    world.forced(worker, "idle")
    catch_up(Alerts())

    assert notices.send_due() == 2
    assert notices.send_due() == 0
    assert [(notice["title"], notice["type"]) for notice in receiver.received] == [
        ("WARNING: worker w1 is unresponsive", "warning"),
        ("resolved: worker w1 is unresponsive", "success"),
    ]


def test_a_critical_alert_is_notified_as_a_failure(receiver, settings) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{receiver.server_port}/",)
    world.open_breaker("ruff")
    catch_up(Alerts())
    notices.send_due()
    assert [notice["type"] for notice in receiver.received] == ["failure"]


def test_a_notice_that_is_being_sent_is_not_sent_again(receiver, settings) -> None:
    """The first one takes long: apprise is imported, the receiver is slow, and the next sweep runs meanwhile."""
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{receiver.server_port}/",)
    sent_meanwhile = []
    with time_machine.travel(MONDAY, tick=False) as clock:
        world.forced(world.idle_worker(), "unresponsive")
        catch_up(Alerts())

        def sweep_again() -> None:
            clock.shift(timedelta(minutes=5))
            receiver.during = lambda: None
            sent_meanwhile.append(notices.send_due())
            connection.close()

        receiver.during = sweep_again
        assert notices.send_due() == 1
    assert sent_meanwhile == [0]
    assert len(receiver.received) == 1


def test_a_worker_that_leaves_without_signing_off_is_shut_down_without_a_critical_alert(clock) -> None:
    worker = world.idle_worker()
    uet = world.created("UetWorker", id="u1", worker_type="python")
    world.fire(uet, "initialization_completed")
    for _ in range(20):
        clock.shift(timedelta(seconds=30))
        recover_stalled()
        timers.end_lost_workers()
        evaluate_rules()
    assert not Alert.objects.exclude(severity="warning").exists()
    assert (type(worker).objects.get().state, type(uet).objects.get().state) == ("shutdown", "TERMINATED")


def test_a_failed_notification_is_retried_and_logs_no_secret(receiver, settings, caplog) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://user:hunter2@127.0.0.1:{receiver.server_port}/",)
    receiver.answer = 500
    with time_machine.travel(MONDAY, tick=False) as clock:
        world.forced(world.idle_worker(), "unresponsive")
        catch_up(Alerts())
        assert notices.send_due() == 0
        assert notices.send_due() == 0  # not before its time
        assert len(receiver.received) == 1

        receiver.answer = 200
        clock.shift(timedelta(minutes=1))
        assert notices.send_due() == 1
    assert AlertNotice.objects.get().attempts == 2
    assert "hunter2" not in caplog.text
    assert str(receiver.server_port) not in caplog.text


def test_a_notification_is_given_up_after_the_last_attempt(settings) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://127.0.0.1:1/",)
    with time_machine.travel(MONDAY, tick=False) as clock:
        world.forced(world.idle_worker(), "unresponsive")
        catch_up(Alerts())
        for _ in range(notices.MAX_ATTEMPTS):
            notices.send_due()
            clock.shift(notices.MAX_RETRY)
        assert AlertNotice.objects.get().done_at is not None


def submit(tasks: list[dict[str, Any]], *more: dict[str, Any], **fields: Any) -> None:
    workstreams = [{"id": "w", "tasks": tasks, **fields}, *more]
    plan = {"phase": world.phase().pk, "start": True, "workstreams": workstreams}
    scheduling.submit_plan(plan, actor=world.operator())


def test_a_healthy_chain_raises_no_alert_and_a_broken_one_does(clock) -> None:
    chain = [{"id": f"t{number}", "depends_on": [f"t{number - 1}"]} for number in range(1, 9)]
    submit([{"id": "t0"}, *chain])
    evaluate_rules()
    blocked = Task.objects.filter(state="blocked").count()
    assert (blocked, open_alerts("blocked_tasks")) == (8, [])

    world.forced(Task.objects.get(pk="t0"), "failed")
    evaluate_rules()
    assert open_alerts("blocked_tasks") == ["blocked"]


def test_tasks_that_wait_for_another_workstream_raise_no_alert_while_that_continues(clock) -> None:
    waiting = [{"id": f"u{number}", "depends_on": ["t0"]} for number in range(8)]
    long = {"id": "t0", "timeout_sec": 14_400, "heartbeat_sec": 14_400}
    submit(
        [long], {"id": "v", "tasks": [{"id": "u"}, *waiting]}, {"id": "x", "tasks": [{"id": "x", "depends_on": ["t0"]}]}
    )
    worker = world.idle_worker(max_concurrent_tasks=2)
    for task in scheduling.claim(worker.pk, actor=world.AGENT):
        if task.pk == "u":
            world.fire(task, "execution_completed", actor=world.AGENT, attempt=1, exit_code=0)
    clock.shift(timedelta(hours=3))
    scheduling.record_heartbeat(worker.pk, actor=world.AGENT)
    evaluate_rules()
    assert Task.objects.filter(state="blocked").count() == 9
    assert (list_stuck(), open_alerts("blocked_tasks"), open_alerts("stuck")) == ([], [], [])

    world.forced(Task.objects.get(pk="t0"), "failed")
    evaluate_rules()
    assert {item.entity.pk for item in list_stuck(entity_type="workstream")} == {"v", "w", "x"}
    assert open_alerts("blocked_tasks") == ["blocked"]


def test_a_waived_gate_does_not_make_a_chain_hopeless(clock) -> None:
    chain = [{"id": f"t{number}", "depends_on": [f"t{number - 1}"]} for number in range(1, 9)]
    gate = {"id": "g", "gate_type": "UNIT", "command": "true"}
    submit([{"id": "t0", "entry_gates": ["g"]}, *chain], gates=[gate])
    for trigger, params in (("gate_started", {}), ("gate_failed", {"exit_code": 1})):
        world.fire(TestGate.objects.get(), trigger, **params)
    evaluate_rules()
    assert open_alerts("blocked_tasks") == ["blocked"]
    waivers.waive(TestGate, "g", actor=world.operator(), reason=world.REASON, category="other")
    evaluate_rules()
    assert open_alerts("blocked_tasks") == []


def test_what_needs_a_decision_is_alerted_at_once_with_the_decision(clock) -> None:
    submit([{"id": "t0"}, {"id": "t1"}])
    world.forced(Task.objects.get(pk="t0"), "failed")
    evaluate_rules()
    assert open_alerts("needs_decision") == ["workstream w"]
    alert = Alert.objects.get(rule="needs_decision")
    assert alert.facts["action"].startswith("retry task t0")
    assert "workstream w needs a decision (retry task t0" in alert.detail

    transitions.retry(Task, "t0", actor=world.operator())
    evaluate_rules()
    assert (open_alerts("needs_decision"), count_raised("needs_decision")) == ([], 1)
