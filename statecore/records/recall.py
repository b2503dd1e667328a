"""Recalls: tasks taken from a worker while running, which its agent must stop."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, models

from ..kernel.clock import now

BATCH = 5_000


class Recall(models.Model):
    """A recalled attempt at a task, written in the transaction that took the task away.

    Heartbeats return it until `until`, when the agent can no longer be working on the task.
    """

    worker = models.ForeignKey("statecore.Worker", models.PROTECT, related_name="+", db_index=False)
    task = models.ForeignKey("statecore.Task", models.PROTECT, related_name="+", db_index=False)
    attempt = models.PositiveIntegerField()
    until = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=("worker", "until"), name="recall_by_worker"),
            models.Index(fields=("until",), name="recall_by_end"),
        )

    def __str__(self) -> str:
        return f"{self.worker_id}: {self.task_id}, attempt {self.attempt}"


class Taken(NamedTuple):
    """A recall to be written."""

    worker_id: str
    task_id: str
    attempt: int
    until: datetime


def recall(taken: Iterable[Taken]) -> None:
    """Write the recalls in one batch, because a cancelled run may have hundreds of running tasks."""
    rows: list[Any] = [each._replace(until=_moment(each.until)) for each in taken]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO statecore_recall (worker_id, task_id, attempt, until) VALUES (%s, %s, %s, %s)", rows
            )


def _moment(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at)


def forget() -> int:
    """Delete a batch of expired recalls and return their number."""
    expired = list(Recall.objects.filter(until__lte=now()).values_list("pk", flat=True)[:BATCH])
    return Recall.objects.filter(pk__in=expired).delete()[0] if expired else 0
