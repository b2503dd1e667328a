"""A process that was killed or hangs is named by /readyz and by an alert, which needs neither beat nor a broker."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.test import Client

from statecore.kernel.clock import now
from statecore.operations.watch import Watch
from statecore.records import Alert, ProcessReport
from tests.support import sequencer
from tests.support.waiting import until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_reports_of_other_processes")]


def report(seconds_ago: float, role: str = "beat", **values: object) -> ProcessReport:
    at = now() - timedelta(seconds=seconds_ago)
    given = {"name": role, "host": "east", "pid": 7, "version": "1", **values}
    return ProcessReport.objects.create(role=role, started_at=at, reported_at=at, **given)


def evaluate_twice() -> list[str]:
    watch = Watch("test")
    watch.evaluate(now())
    watch.evaluate(now())
    return list(Alert.objects.filter(rule="process_silent", resolved_at=None).values_list("detail", flat=True))


def test_a_silent_beat_is_named_until_it_reports_again(client: Client, redis_server: str) -> None:
    beat = report(40)
    report(1, "worker", pid=8)

    health = client.get("/readyz").json()
    assert (health["status"], health["failed"]) == ("degraded", ["processes"])
    assert "beat (process 7) has not reported for 4" in health["reasons"]["processes"]
    assert client.get("/readyz?check=database&check=migrations").status_code == 200
    (detail,) = evaluate_twice()
    assert detail.startswith("beat on east (process 7) has not reported since")

    ProcessReport.objects.filter(pk=beat.pk).update(reported_at=now())
    assert client.get("/readyz").status_code == 200
    assert evaluate_twice() == []


def test_an_outage_that_silences_all_for_a_moment_raises_no_alert(redis_server: str) -> None:
    report(40), report(40, "worker", pid=8)
    watch = Watch("test")
    watch.evaluate(now())
    ProcessReport.objects.update(reported_at=now())
    watch.evaluate(now())
    watch.evaluate(now())

    assert not Alert.objects.filter(rule="process_silent").exists()


def test_a_process_that_was_replaced_on_another_host_is_not_missed(client: Client, redis_server: str) -> None:
    report(40)
    report(10, host="west", pid=3)

    assert client.get("/readyz").status_code == 200
    assert evaluate_twice() == []


@pytest.mark.django_db(transaction=True)
def test_a_leader_that_hangs_is_named(client: Client, redis_server: str, home: Path) -> None:
    with sequencer.running(home) as leader:
        until(ProcessReport.objects.exists)
        leader.send_signal(signal.SIGSTOP)
        try:
            with time_machine.travel(now() + timedelta(seconds=20)):
                reasons = client.get("/readyz").json()["reasons"]
        finally:
            leader.send_signal(signal.SIGCONT)

    assert "sequencer" in reasons["processes"]
