"""Metrics count committed transitions, and `/metrics` requires a token or a staff session."""

from __future__ import annotations

import platform
from datetime import timedelta
from typing import Any

import django
import pytest
import time_machine
from celery.signals import task_revoked
from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from statecore import __version__, transitions
from statecore.delivery.sequencer.lag import SequencerLag
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.metrics import Metrics
from statecore.journal import Event, dwell_seconds
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.kernel.refusals import IdempotencyMismatch, Refusal
from statecore.project import celery
from statecore.read_models import metrics
from statecore.records import Alert
from statecore.transitions import RequestKey
from tests.machines.worlds import fixed_clock
from tests.support import site as sites
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "a-token-of-some-length"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


@pytest.fixture
def read(settings: Any) -> Any:
    """Returns a function that scrapes one sample: read("entity_state", entity_type="task", state="queued")."""
    settings.STATECORE_METRICS_TOKEN = TOKEN

    def one(name: str, **labels: str) -> float:
        catch_up(Counters(), Metrics())
        response = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert response.status_code == 200
        return samples(response.content.decode()).get((name, tuple(sorted(labels.items()))), 0.0)

    return one


def test_transitions_are_counted_by_source_and_target_state(read) -> None:
    pending = {"entity_type": "run", "from_state": "none", "to_state": "pending"}
    running = {"entity_type": "run", "from_state": "pending", "to_state": "running"}
    before = read("state_transitions_total", **pending), read("state_transitions_total", **running)
    world.fire(world.run(), "run_started")
    transitions.transition_many(world.model("Run"), [world.run().pk, world.run().pk], "run_started", actor=THE_SYSTEM)
    after = read("state_transitions_total", **pending), read("state_transitions_total", **running)
    assert (after[0] - before[0], after[1] - before[1]) == (3, 3)


def test_a_dry_run_is_not_counted(read) -> None:
    running = {"entity_type": "run", "from_state": "pending", "to_state": "running"}
    run, before = world.run(), read("state_transitions_total", **running)
    transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, dry_run=True)
    assert read("state_transitions_total", **running) == before


def test_the_time_in_a_state_is_a_histogram(read) -> None:
    labels = {"entity_type": "pipeline_job", "state": "PENDING"}
    name = "state_transition_duration_seconds"
    before = {le: read(f"{name}_bucket", le=le, **labels) for le in ("15.0", "60.0", "+Inf")}
    total = read(f"{name}_sum", **labels)
    with fixed_clock() as clock:
        job = world.created("PipelineJob")
        clock.shift(timedelta(seconds=42))
        world.fire(job, "analyze")
    grown = {le: read(f"{name}_bucket", le=le, **labels) - count for le, count in before.items()}
    assert grown == {"15.0": 0, "60.0": 1, "+Inf": 1}
    assert read(f"{name}_sum", **labels) - total == 42


def test_overrides_are_counted_by_operator(read) -> None:
    world.forced(world.task(), "completed", actor=world.operator("grace"))
    assert read("manual_state_overrides_total", entity_type="task", operator="grace") == 1


def test_refusals_are_counted_by_code(read) -> None:
    labels = {"entity_type": "run", "code": "unknown_trigger"}
    before = read("statecore_refusals_total", **labels)
    with pytest.raises(Refusal):
        world.fire(world.run(), "fly")
    assert read("statecore_refusals_total", **labels) == before + 1


def test_repeated_requests_are_hits_and_first_requests_misses(read) -> None:
    before = {result: read("statecore_idempotent_requests_total", result=result) for result in ("hit", "miss")}
    run, key = world.run(), RequestKey("k1", "runs", "0" * 64)
    for _ in range(3):
        transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, request=key)
    grown = {result: read("statecore_idempotent_requests_total", result=result) - before[result] for result in before}
    assert grown == {"hit": 2, "miss": 1}


def test_another_body_under_a_used_key_is_no_hit(read) -> None:
    run = world.run()
    transitions.transition(
        type(run), run.pk, "run_started", actor=THE_SYSTEM, request=RequestKey("k2", "runs", "0" * 64)
    )
    before = read("statecore_idempotent_requests_total", result="hit")
    other = RequestKey("k2", "runs", "1" * 64)
    with pytest.raises(IdempotencyMismatch):
        transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, request=other)
    assert read("statecore_idempotent_requests_total", result="hit") == before


def test_entity_state_gauges_equal_the_counters(read) -> None:
    for _ in range(3):
        world.queued_task()
    world.forced(world.task(), "completed")
    assert read("entity_state", entity_type="task", state="queued") == 3
    assert read("entity_state", entity_type="task", state="running") == 0
    assert read("entity_state", entity_type="task", state="completed") == 1


def test_overdue_entities_are_counted(read) -> None:
    with fixed_clock() as clock:
        world.queued_task()
        assert read("statecore_stuck_entities", entity_type="task", state="queued") == 0
        clock.shift(timedelta(minutes=11))
        assert read("statecore_stuck_entities", entity_type="task", state="queued") == 1


def test_dwell_seconds_are_read_from_the_bytes_of_any_event() -> None:
    task = world.queued_task(metadata={"dwell_seconds": 7})
    transitions.override(
        type(task), task.pk, "completed", actor=world.operator(), reason='contains "dwell_seconds":9, and more',
        category="other", metadata={"dwell_seconds": 8, "a": '"dwell_seconds":9,'},
    )  # fmt: skip
    for event in Event.objects.all():
        assert dwell_seconds(event.body) == event.as_dict()["dwell_seconds"]


class TestAccess:
    def test_an_anonymous_visitor_is_redirected_to_the_login(self, client: Client) -> None:
        response = client.get("/metrics")
        assert (response.status_code, response["Location"]) == (302, "/login/?next=/metrics")

    @pytest.mark.parametrize("given", ["Bearer wrong", "Bearer ", f"Basic {TOKEN}", TOKEN, "Bearer ü"])
    def test_a_wrong_token_is_refused(self, client: Client, settings: Any, given: str) -> None:
        settings.STATECORE_METRICS_TOKEN = TOKEN
        response = client.get("/metrics", headers={"Authorization": given})
        assert (response.status_code, response["WWW-Authenticate"]) == (401, "Bearer")

    def test_without_a_configured_token_no_token_is_accepted(self, client: Client) -> None:
        assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401

    def test_only_staff_users_have_access(self, client: Client) -> None:
        client.force_login(User.objects.create(username="eve"))
        assert client.get("/metrics").status_code == 403
        client.force_login(User.objects.create(username="ada", is_staff=True))
        assert client.get("/metrics").status_code == 200

    def test_post_is_not_allowed(self, client: Client) -> None:
        assert client.post("/metrics").status_code == 405


def test_observing_many_durations_at_once_equals_observing_each() -> None:
    values = [0, 0.1, 0.2, 1, 59.9, 60, 61, 86_400, 1e9]
    at_once = metrics.Durations("at_once", "documentation", buckets=metrics.BUCKETS, registry=None)
    one_by_one = metrics.Histogram("one_by_one", "documentation", buckets=metrics.BUCKETS, registry=None)
    at_once.observe_all(values)
    for value in values:
        one_by_one.observe(value)

    def collected(histogram: metrics.Histogram) -> list[tuple[Any, ...]]:
        (family,) = histogram.collect()
        found = [(one.name.partition("_")[2], one.labels, one.value) for one in family.samples]
        return [(name.removeprefix("once_").removeprefix("by_one_"), *rest) for name, *rest in found][:-1]

    assert collected(at_once) == collected(one_by_one)


def test_open_alerts_are_counted_by_rule_including_zero(read) -> None:
    assert read("statecore_open_alerts", rule="stuck", severity="critical") == 0.0
    alert = Alert.objects.create(rule="stuck", key="task.queued", severity="critical", detail="x", opened_at=now())
    assert read("statecore_open_alerts", rule="stuck", severity="critical") == 1.0
    assert read("statecore_open_alerts", rule="rollback", severity="critical") == 0.0
    Alert.objects.filter(pk=alert.pk).update(resolved_at=now())
    assert read("statecore_open_alerts", rule="stuck", severity="critical") == 0.0


def test_the_sequencer_lag_is_the_age_of_the_oldest_unnumbered_event(read) -> None:
    with time_machine.travel(now() - timedelta(minutes=5), tick=False):
        world.run()
    lag = dict(SequencerLag().values())
    assert lag[("numbering",)] == pytest.approx(300, abs=60)
    assert read("statecore_sequencer_lag_seconds", what="numbering") == 0.0


def test_requests_are_counted_by_route_with_their_statements(read) -> None:
    task = world.task()
    route = {"method": "GET", "route": "api/v1/tasks/<str:entity_id>/"}
    names = ("statecore_http_requests_total", "statecore_http_request_duration_seconds_count")
    names = (*names, "statecore_http_database_statements_total", "statecore_http_database_seconds_total")
    labels = [{**route, "status": "2xx"}, route, route, route]
    before = [read(name, **given) for name, given in zip(names, labels, strict=True)]
    client = Client(headers={"Authorization": f"Bearer {sites.token('read')}"})
    assert client.get(f"/api/v1/tasks/{task.pk}/").status_code == 200
    requests, durations, statements, seconds = (
        read(name, **given) - earlier for name, given, earlier in zip(names, labels, before, strict=True)
    )
    assert (requests, durations) == (1, 1)
    assert statements >= 1
    assert seconds > 0


def test_callers_cannot_add_time_series(read) -> None:
    other = {"method": "other", "route": "other", "status": "4xx"}
    before = read("statecore_http_requests_total", **other)
    for number in range(2):
        assert Client().generic("BREW", f"/coffee/{number}").status_code == 404
    assert read("statecore_http_requests_total", **other) == before + 2


def test_statements_that_fail_are_counted_by_the_code_of_the_database(read) -> None:
    labels = {"error": {"postgresql": "42703", "sqlite": "SQLITE_ERROR"}[connection.vendor]}
    before = read("statecore_database_errors_total", **labels)
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT nothing")
    assert read("statecore_database_errors_total", **labels) == before + 1


@pytest.mark.sqlite
def test_the_wait_for_the_lock_of_sqlite_is_a_histogram(read) -> None:
    before = read("statecore_database_lock_wait_seconds_count")
    world.fire(world.run(), "run_started")
    assert read("statecore_database_lock_wait_seconds_count") > before


def test_background_tasks_are_counted_by_outcome(read, redis_server: str) -> None:
    done, failed = "statecore.tasks.end_holds", "statecore.tasks.run_bulk_job"
    labels = [{"task": done, "outcome": "success"}, {"task": failed, "outcome": "failure"}]
    labels.append({"task": done, "outcome": "expired"})
    before = [read("statecore_celery_tasks_total", **each) for each in labels]
    durations = read("statecore_celery_task_duration_seconds_count", task=done)
    celery.app.tasks[done].apply()
    assert celery.app.tasks[failed].apply(args=()).failed()
    task_revoked.send(sender=celery.app.tasks[done], request=None, expired=True)  # as a worker does
    assert [read("statecore_celery_tasks_total", **each) for each in labels] == [count + 1 for count in before]
    assert read("statecore_celery_task_duration_seconds_count", task=done) == durations + 1


def test_the_build_and_the_messages_that_wait_are_gauges(read, redis_server: str) -> None:
    with Redis.from_url(redis_server) as redis:
        redis.rpush("gates", "{}")
        assert read("statecore_celery_queue_messages", queue="gates") == 1
        redis.delete("gates")
    versions = {"version": __version__, "python": platform.python_version(), "django": django.get_version()}
    assert read("statecore_build_info", **versions, database=connection.vendor) == 1
    if connection.vendor == "postgresql":
        assert (
            0
            < read("statecore_database_connections", what="open")
            < read("statecore_database_connections", what="limit")
        )
