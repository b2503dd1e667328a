"""What a Django project would use instead of Statecore."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from benchmarks.peer.models import PeerEvent, PeerTask
from benchmarks.raw import FINISH, Ids, event
from statecore.journal import COLUMNS

CHANGED = ("state", "version", "updated_at", "state_entered_at", "exit_code", "worker_id", "lease_expires_at")


def fsm_log(ids: Ids) -> None:
    """django-fsm under a row lock, with django-fsm-log; saves only the changed fields."""
    for number in ids:
        with transaction.atomic():
            task = PeerTask.objects.select_for_update().get(pk=number)
            task.reported_attempt, task.reported_exit_code = 1, 0
            task.finish()
            _save(task)


def orm(ids: Ids) -> None:
    """No state machine: lock, compare, save, create."""
    for number in ids:
        with transaction.atomic():
            _change_with_orm(number)


def orm_loop(ids: Ids) -> None:
    with transaction.atomic():
        for number in ids:
            _change_with_orm(number)


def _change_with_orm(number: int) -> None:
    task = PeerTask.objects.select_for_update().get(pk=number)
    if task.state != FINISH.source:
        raise ValueError(task.state)
    task.state, task.exit_code = FINISH.target, 0
    _save(task)
    values = event("task", str(number), task.version, FINISH, task.updated_at)
    PeerEvent.objects.create(**dict(zip(COLUMNS, values, strict=True)))


def _save(task: Any) -> None:
    task.version += 1
    task.updated_at = task.state_entered_at = datetime.now(UTC)
    task.worker_id = task.lease_expires_at = None
    task.save(update_fields=CHANGED)
