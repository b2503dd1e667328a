"""Attack: stored data is changed directly, and nobody is alarmed. Every finding raises a critical alert instead."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from statecore import tasks
from statecore.delivery.sinks.alerts import OpenAlerts
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.operations import alarms, integrity
from statecore.operations.incidents import sweep
from statecore.operations.integrity import invariants, verification
from statecore.read_models import board
from statecore.records import Alert, AlertNotice, Incident, incident
from statecore.records import alert as alert_record
from statecore.storage import triggers
from tests.support import world

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_reports_of_other_processes")]


@pytest.fixture(autouse=True)
def sweeps_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "_places", {})
    monkeypatch.setattr(verification, "_places", {})
    monkeypatch.setattr(alarms, "_suspects", set())


def forge(task: Any, state: str) -> None:
    with triggers.disabled(connection):
        Task.objects.filter(pk=task.pk).update(state=state)


def open_alerts(rule: str) -> list[Alert]:
    return list(Alert.objects.filter(rule=rule, resolved_at=None).order_by("key"))


def test_found_tampering_raises_an_alarm(settings: Any) -> None:
    settings.STATECORE_NOTIFY_URLS = ["json://127.0.0.1:9"]
    task, honest = world.task(), world.task()
    forge(task, "queued")

    tasks.check_recent_integrity()

    (alert,) = open_alerts("integrity")
    assert (alert.severity, alert.key) == ("critical", "row.task")
    assert alert.facts == {"check": "row", "entity_type": "task", "ids": [task.pk]}
    assert honest.pk not in alert.detail
    assert AlertNotice.objects.get().subject.startswith("CRITICAL: task")


def test_a_forged_row_without_recent_events_is_found_by_the_sweep() -> None:
    old = world.task()
    others = [world.task() for _ in range(4)]
    forge(old, "queued")

    for _ in others:
        alarms.raise_alarms(verification.sweep_entities(batch=2))

    (alert,) = open_alerts("integrity")
    assert alert.facts["ids"] == [old.pk]


def test_a_later_partial_check_adds_entities_and_resolves_nothing() -> None:
    first, second = world.task(), world.task()
    forge(first, "queued")
    tasks.check_recent_integrity()
    forge(second, "queued")

    alarms.raise_alarms(verification.check_entity("task", second.pk))
    alarms.raise_alarms([])

    (alert,) = open_alerts("integrity")
    assert alert.facts["ids"] == sorted([first.pk, second.pk])


def test_only_a_complete_check_that_passes_resolves_the_alert() -> None:
    task = world.task()
    forge(task, "queued")
    tasks.check_recent_integrity()
    forge(task, task.state)

    tasks.check_recent_integrity()
    assert len(open_alerts("integrity")) == 1
    call_command("integrity", stdout=StringIO())
    assert open_alerts("integrity") == []


def test_a_difference_from_an_outside_copy_is_resolved_only_by_a_comparison() -> None:
    difference = integrity.Finding("copy", "error", "", "", "position 3 differs")
    alarms.update_after_comparison([difference])

    call_command("integrity", stdout=StringIO())
    (alert,) = open_alerts("integrity")
    assert "position 3 differs" in alert.detail

    alarms.update_after_comparison([])
    assert open_alerts("integrity") == []


def test_a_removed_guard_raises_an_alarm() -> None:
    triggers.remove(connection)
    tasks.check_recent_integrity()
    triggers.install(connection)

    assert [alert.key for alert in open_alerts("integrity")] == ["triggers"]


def test_the_metric_counts_the_alarm() -> None:
    forge(world.task(), "queued")
    tasks.check_recent_integrity()

    assert (("integrity", "critical"), 1) in list(OpenAlerts().values())


def test_readyz_is_degraded_and_a_load_balancer_keeps_the_site(client: Client) -> None:
    forge(world.task(), "queued")
    tasks.check_recent_integrity()

    response = client.get("/readyz?check=database&check=integrity")

    body = response.json()
    assert (response.status_code, body["status"], body["failed"]) == (503, "degraded", ["integrity"])
    assert client.get("/readyz?check=database&check=migrations").status_code == 200


def test_the_forged_row_is_marked_over_rest_and_in_the_console(admin_client: Client) -> None:
    forged, honest = world.task(), world.task()
    forge(forged, "queued")
    tasks.check_recent_integrity()

    listed = {row["id"]: row for row in admin_client.get("/api/v1/tasks/").json()["results"]}
    assert (listed[forged.pk].get("unverified"), listed[honest.pk].get("unverified")) == (True, None)
    assert admin_client.get(f"/api/v1/tasks/{forged.pk}/").json()["unverified"] is True
    page = admin_client.get("/machines/tasks/?q=state:queued").content.decode()
    assert page.count("does not verify</span>") == 1
    assert "does not verify</strong>" in admin_client.get(f"/machines/tasks/{forged.pk}/").content.decode()


def test_the_page_of_an_entity_verifies_its_evidence(admin_client: Client) -> None:
    """Before any sweep has found the change."""
    task = world.task(payload={"n": 1})
    address = f"/machines/tasks/{task.pk}/proof/"
    assert "Verified" in admin_client.get(address).content.decode()

    with triggers.disabled(connection):
        Task.objects.filter(pk=task.pk).update(payload={"n": 2})

    page = admin_client.get(address).content.decode()
    assert "Verification failed" in page
    assert "decisions or evidence differs from the digest in its last event" in page


def test_the_console_and_the_walls_have_a_banner_while_it_is_open(admin_client: Client) -> None:
    banner = "Stored data does not verify"
    task = world.task()
    assert banner not in admin_client.get("/incidents/").content.decode()
    forge(task, "queued")
    tasks.check_recent_integrity()

    assert banner in admin_client.get("/incidents/").content.decode()
    assert board.get_stats()["alerts"]["integrity"] == 1


def test_a_broken_invariant_raises_an_alarm_when_the_next_sweep_finds_it_again() -> None:
    worker = world.idle_worker()
    Worker.objects.filter(pk=worker.pk).update(current_load=1)

    tasks.sweep_invariants()
    assert open_alerts("invariant_broken") == []
    tasks.sweep_invariants()
    (alert,) = open_alerts("invariant_broken")
    assert (alert.severity, alert.facts["ids"]) == ("critical", [worker.pk])

    Worker.objects.filter(pk=worker.pk).update(current_load=0)
    tasks.sweep_invariants()
    assert open_alerts("invariant_broken") == []


def test_a_rule_that_time_alone_breaks_raises_no_alarm_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker = world.idle_worker()
    long_ago = worker.created_at.replace(year=2001)
    with triggers.disabled(connection):
        Worker.objects.filter(pk=worker.pk).update(created_at=long_ago, last_heartbeat=long_ago)

    tasks.sweep_invariants()
    tasks.sweep_invariants()

    assert open_alerts("invariant_broken") == []
    assert "invariant_broken" not in caplog.text


def test_no_operator_silences_an_alarm() -> None:
    """A silence covers later alerts of the same rule and key, so it would also hide the next change."""
    forge(world.task(), "queued")
    tasks.check_recent_integrity()
    sweep()
    (alert,) = open_alerts("integrity")
    for quieten in (partial(alert_record.silence, alert.pk), partial(incident.snooze, alert.incident_id)):
        with pytest.raises(Invalid, match="never silenced"):
            quieten("eve", now() + timedelta(hours=1))
    # As an earlier version stored them.
    quiet = now() + timedelta(days=365)
    Alert.objects.update(silenced_until=quiet, silenced_by="eve")
    Incident.objects.update(snoozed_until=quiet)
    alert.refresh_from_db()
    assert not alert.is_silenced(now())
    assert not Incident.objects.get(pk=alert.incident_id).is_snoozed(now())
