"""Attempts at tasks that did not complete them: worker, times, result and output of each.

The row of a task has its last attempt. A record is written when an attempt ends in any other way than by completing the
task, so that completing tasks costs nothing; the next attempt then overwrites the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, models

from ..kernel.clock import now, rfc3339
from ..kernel.ids import ID_LENGTH

BATCH = 5_000
INSERT = (
    "INSERT INTO statecore_taskattempt "
    "(task_id, attempt, worker, started_at, ended_at, ended_by, exit_code, error, output, patch, result) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


class TaskAttempt(models.Model):
    task = models.ForeignKey("statecore.Task", models.PROTECT, related_name="+", db_index=False)
    # The fencing number; overrides increase it too, so numbers may be missing.
    attempt = models.PositiveIntegerField()
    worker = models.CharField(max_length=ID_LENGTH)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    # The trigger that ended it.
    ended_by = models.CharField(max_length=64)
    exit_code = models.IntegerField(null=True)
    error = models.TextField()
    output = models.TextField()
    # The patch that it handed in.
    patch = models.CharField(max_length=ID_LENGTH)
    # The result that it reported before its work was rejected.
    result = models.JSONField(null=True)

    class Meta:
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=("task", "started_at"), name="attempt_by_task"),
            models.Index(fields=("ended_at",), name="attempt_by_end"),
        )

    def __str__(self) -> str:
        return f"task {self.task_id}, attempt {self.attempt}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task_id,
            "attempt": self.attempt,
            "worker": self.worker or None,
            "started_at": rfc3339(self.started_at),
            "ended_at": rfc3339(self.ended_at),
            "ended_by": self.ended_by,
            "exit_code": self.exit_code,
            "error": self.error,
            "output": self.output,
            "patch": self.patch or None,
            "result": self.result,
        }


class Ended(NamedTuple):
    """An attempt to be recorded, in the order of the columns in INSERT."""

    task_id: str
    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime
    ended_by: str
    exit_code: int | None
    error: str
    output: str
    patch: str
    result: Any


def record(ended: Iterable[Ended]) -> None:
    """Write the attempts in one batch, because a cancelled run may have hundreds of running tasks."""
    rows: list[Any] = [
        each._replace(started_at=_moment(each.started_at), ended_at=_moment(each.ended_at), result=_adapt(each.result))
        for each in ended
    ]
    with connection.cursor() as cursor:
        cursor.executemany(INSERT, rows)


def _moment(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at)


def _adapt(result: Any) -> Any:
    return TaskAttempt._meta.get_field("result").get_db_prep_save(result, connection)


def forget() -> int:
    """Delete a batch of attempts that are older than the setting and return their number."""
    if not settings.STATECORE_ATTEMPT_DAYS:
        return 0
    until = now() - timedelta(days=settings.STATECORE_ATTEMPT_DAYS)
    old = list(
        TaskAttempt.objects.filter(ended_at__lte=until).order_by("ended_at").values_list("pk", flat=True)[:BATCH]
    )
    return TaskAttempt.objects.filter(pk__in=old).delete()[0] if old else 0
