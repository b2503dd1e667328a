"""The logs of tasks: what their agents write while they work.

Lines are numbered per task and stored in chunks, one for each call, because an agent writes many lines. The row
`TaskLog` of a task gives out the numbers; each call locks it. Logs are not evidence: they are in no event,
and are deleted after some days.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import connection, models

from ..kernel.clock import now
from ..kernel.ids import ID_LENGTH

BATCH = 2_000
MAX_BATCHES = 50  # per sweep, so that one sweep deletes a day of busy agents and still ends


class TaskLog(models.Model):
    task = models.OneToOneField("statecore.Task", models.PROTECT, related_name="+", primary_key=True)
    # The attempt of the last line; lines of an earlier one are refused.
    attempt = models.PositiveIntegerField()
    # The numbers of the first line of that attempt and of the line that is written next.
    first = models.PositiveBigIntegerField()
    next = models.PositiveBigIntegerField()
    # The bytes stored of that attempt.
    size = models.PositiveBigIntegerField()
    # When the rate would permit all lines that were written; in the future after a burst.
    paid_until = models.DateTimeField()
    started_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        # No index on a column that changes with each call, so that PostgreSQL updates the row in place.
        indexes = (models.Index(fields=("started_at",), name="task_log_by_start"),)

    def __str__(self) -> str:
        return f"log of task {self.task_id}"


class LogChunk(models.Model):
    """Consecutive lines of one attempt, or the note that they were dropped."""

    # Without a foreign key, whose check would lock the row of the task with each chunk.
    task_id = models.CharField(max_length=ID_LENGTH)
    attempt = models.PositiveIntegerField()
    first = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    # The lines as JSON, `[[stream, text, time or null], ...]`; empty if they were dropped.
    body = models.TextField()
    size = models.PositiveIntegerField()

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("task_id", "last"), name="log_chunks_do_not_overlap"),)

    def __str__(self) -> str:
        return f"lines {self.first} to {self.last} of task {self.task_id}"


CHUNKS, LOGS, TASKS = LogChunk._meta.db_table, TaskLog._meta.db_table, "statecore_task"
# Chunks are written in the order of their ids, apart from calls at the same moment, so no index on the time is needed.
DELETE_CHUNKS = f"DELETE FROM {CHUNKS} WHERE id IN (SELECT id FROM {CHUNKS} ORDER BY id LIMIT {BATCH}) AND at < %s"  # noqa: S608
# The number of the next line is kept while an agent may still write one.
DELETE_LOGS = (
    f"DELETE FROM {LOGS} WHERE task_id IN (SELECT log.task_id FROM {LOGS} AS log WHERE log.started_at < %s "  # noqa: S608
    f"AND NOT EXISTS (SELECT 1 FROM {CHUNKS} AS chunk WHERE chunk.task_id = log.task_id) "
    f"AND NOT EXISTS (SELECT 1 FROM {TASKS} AS task WHERE task.id = log.task_id AND task.state = 'running') "
    f"ORDER BY log.started_at LIMIT {BATCH})"
)


def forget() -> int:
    """Delete the chunks that are older than the setting, in batches, and return their number."""
    if not settings.STATECORE_TASK_LOG_DAYS:
        return 0
    until = connection.ops.adapt_datetimefield_value(now() - timedelta(days=settings.STATECORE_TASK_LOG_DAYS))
    deleted = 0
    with connection.cursor() as cursor:
        for _batch in range(MAX_BATCHES):
            cursor.execute(DELETE_CHUNKS, [until])
            deleted += cursor.rowcount
            if cursor.rowcount < BATCH:
                break
        cursor.execute(DELETE_LOGS, [until])
    return deleted
