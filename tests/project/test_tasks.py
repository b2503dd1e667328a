"""The periodic Celery tasks."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from celery import current_app
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection

from statecore import tasks
from statecore.journal import IdempotencyRecord
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.operations import integrity
from statecore.records import Alert, BulkJob, BulkPortion
from statecore.storage import triggers
from tests.support import world


def test_every_scheduled_task_exists() -> None:
    current_app.loader.import_default_modules()
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}

    assert scheduled <= set(current_app.tasks)


@pytest.mark.django_db
def test_expired_idempotency_records_are_deleted() -> None:
    details = {"actor": "ann", "actor_kind": "agent", "endpoint": "tasks", "body_hash": "", "created_at": now()}
    IdempotencyRecord.objects.create(key="expired", expires_at=now() - timedelta(seconds=1), **details)
    IdempotencyRecord.objects.create(key="valid", expires_at=now() + timedelta(hours=1), **details)

    tasks.expire_idempotency_records()

    assert [record.key for record in IdempotencyRecord.objects.all()] == ["valid"]


@pytest.mark.django_db
def test_rows_without_use_are_deleted_and_others_stay() -> None:
    at = now()
    past, details = at - timedelta(days=400), {"severity": "error", "detail": "", "opened_at": at}
    for days in (91, 89):
        Alert.objects.create(rule="disk", key=str(days), resolved_at=at - timedelta(days=days), **details)
    Alert.objects.create(rule="disk", key="open", **details)
    kept = {"resolved_at": past, "silenced_until": at + timedelta(days=1)}
    Alert.objects.create(rule="disk", key="silenced", **kept, **details)
    Session.objects.create(session_key="ended", expire_date=at - timedelta(seconds=1))
    Session.objects.create(session_key="valid", expire_date=at + timedelta(hours=1))
    job = {"entity_type": "task", "total": 1, "created_at": past, "params": {}}
    for name, finished in (("old", past), ("new", at), ("unfinished", None)):
        made = BulkJob.objects.create(id=name, finished_at=finished, **job)
        BulkPortion.objects.create(job=made, number=1, ids=[])
    failure = {"get_data": "", "post_data": "", "failures_since_start": 1}
    for name, when in (("old", past), ("new", at)):
        AccessAttempt.objects.create(username=name, **failure)
        AccessAttempt.objects.filter(username=name).update(attempt_time=when)

    tasks.expire_idempotency_records()

    assert sorted(Alert.objects.values_list("key", flat=True)) == ["89", "open", "silenced"]
    assert [each.pk for each in Session.objects.all()] == ["valid"]
    assert sorted(BulkPortion.objects.values_list("job_id", flat=True)) == ["new", "unfinished"]
    assert [each.username for each in AccessAttempt.objects.all()] == ["new"]


@pytest.mark.django_db
def test_an_invariant_that_stays_broken_is_logged_once_as_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(integrity.invariants, "_places", {})
    worker = world.idle_worker()
    Worker.objects.update(current_load=1)

    tasks.sweep_invariants()
    assert not caplog.records
    tasks.sweep_invariants()
    tasks.sweep_invariants()

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert worker.pk in str(record.msg)


@pytest.mark.django_db
def test_a_finding_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    task = world.task()
    with triggers.disabled(connection):
        Task.objects.filter(pk=task.pk).update(state="queued")

    tasks.check_recent_integrity()

    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert task.pk in str(record.msg)
