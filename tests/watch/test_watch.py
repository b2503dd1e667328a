"""The system rules: what is wrong with the installation itself becomes an alert, without beat, broker and leader."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from statecore.delivery.sequencer import SEQUENCER
from statecore.delivery.sinks.alert_rules import SYSTEM_RULES
from statecore.kernel.clock import now
from statecore.operations.doctor import services
from statecore.operations.watch import Watch, problems
from statecore.records import Alert, AlertNotice, LeaderLease, ProcessReport
from statecore.records.alert import store_notices
from statecore.records.leader_lease import Leadership
from tests.support.waiting import until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_reports_of_other_processes")]


def report(**values: object) -> ProcessReport:
    at = now()
    given = {"role": "web", "name": "web", "host": "east", "pid": 7, "version": "1", **values}
    return ProcessReport.objects.create(started_at=at, reported_at=at, **given)


def evaluate_twice() -> set[str]:
    watch = Watch("test")
    watch.evaluate(now())
    assert not Alert.objects.filter(resolved_at=None).exists()
    watch.evaluate(now())
    return set(Alert.objects.filter(resolved_at=None).values_list("rule", flat=True))


def test_every_rule_has_a_check() -> None:
    assert {rule.name for rule in SYSTEM_RULES} == set(problems.CHECKS)


def test_a_sound_installation_raises_nothing(redis_server: str) -> None:
    report()
    assert evaluate_twice() == set()


def test_each_problem_becomes_an_alert_that_the_page_and_readyz_show(
    client: Client, redis_server: str, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(clock_skew_seconds=-7.5)
    report(restarts=3, last_exit="exited with code 3", pid=8)
    Leadership(SEQUENCER).acquire()
    LeaderLease.objects.update(expires_at=now() - timedelta(minutes=1))
    settings.STATECORE_ALERTS = {**settings.STATECORE_ALERTS, "disk_free_mb": 1 << 40}
    monkeypatch.setattr(services, "get_sweep_ages", lambda: {"sweep_tasks": 900.0})

    expected = {"clock_skew", "process_restarts", "no_leader", "disk_low", "sweep_late"}
    assert evaluate_twice() == expected
    health = client.get("/readyz").json()
    assert health["failed"] == ["processes", "leader", "system"]
    assert "the sweep sweep_tasks last started 900 s ago" in health["reasons"]["system"]
    assert "the clock of web on east (process 7) is 7.5 s behind the database's" in health["reasons"]["system"]

    client.force_login(User.objects.create_superuser("ada"))
    page = client.get("/system/").content.decode()
    assert page.index("no sequencer leads") < page.index("was started again 3 times") < page.index("is 7.5 s behind")
    assert "Degraded: no sequencer leads" in client.get("/alerts/").content.decode()


def test_a_broker_that_takes_nothing_is_noticed_and_what_is_over_resolves(settings, redis_server: str) -> None:
    settings.REDIS_URL, good = "redis://127.0.0.1:1/0", settings.REDIS_URL
    assert evaluate_twice() == {"broker_unreachable"}

    settings.REDIS_URL = good
    Watch("test").evaluate(now())
    assert not Alert.objects.filter(resolved_at=None).exists()


def test_only_staff_with_the_permission_see_the_page(client: Client) -> None:
    client.force_login(User.objects.create_user("bob"))
    assert client.get("/system/").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_a_notice_that_no_worker_sends_is_sent(settings, tmp_path: Path) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://127.0.0.1:1/nobody",)
    store_notices("CRITICAL: beat is silent", "text", now() - timedelta(minutes=1))
    watch, other = Watch("sequencer"), Watch("webhooks")
    watch._work()
    other._work()

    until(lambda: AlertNotice.objects.get().attempts == 1)
    assert watch.sender is not None
    watch.sender.join(30)
    assert (watch.leadership.is_held, other.leadership.is_held, other.sender) == (True, False, None)
