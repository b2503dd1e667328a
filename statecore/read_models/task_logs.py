"""Reads the logs of tasks: pages forwards and backwards, the attempts that have one, and what has come since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db import connection
from django.db.models import Max, QuerySet

from ..kernel.clock import rfc3339
from ..machines.task import UNCLAIMED, State, Task
from ..records.task_log import LogChunk

SYSTEM = "system"  # the stream of lines that say what was dropped
COLUMNS = ("task_id", "attempt", "first", "last", "at", "body")
CHUNKS_PER_READ = 100


class StoredLine(NamedTuple):
    number: int
    attempt: int
    stream: str
    text: str
    at: str

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


class Chunk(NamedTuple):
    task_id: str
    attempt: int
    first: int
    last: int
    at: datetime
    body: str

    def lines(self) -> list[StoredLine]:
        received = rfc3339(self.at)
        if not self.body:
            text = f"{self.last - self.first + 1:,} lines dropped: the log of attempt {self.attempt} was too long"
            return [StoredLine(self.last, self.attempt, SYSTEM, text, received)]
        numbered = enumerate(msgspec.json.decode(self.body), self.first)
        return [
            StoredLine(number, self.attempt, stream, text, at or received) for number, (stream, text, at) in numbered
        ]


def select_chunks(task_id: str, attempt: int | None = None) -> QuerySet[Any, Any]:
    chosen = LogChunk.objects.filter(task_id=task_id)
    return (chosen if attempt is None else chosen.filter(attempt=attempt)).values_list(*COLUMNS)


def read_after(task_id: str, after: int, limit: int, attempt: int | None = None) -> list[StoredLine]:
    """Return the first lines after a number, oldest first."""
    found: list[StoredLine] = []
    rows = select_chunks(task_id, attempt).order_by("last")
    while len(found) < limit:
        chunks = [Chunk(*row) for row in rows.filter(last__gt=after)[:CHUNKS_PER_READ]]
        found += [line for chunk in chunks for line in chunk.lines() if line.number > after]
        if len(chunks) < CHUNKS_PER_READ:
            break
        after = chunks[-1].last
    return found[:limit]


def read_before(task_id: str, before: int | None, limit: int, attempt: int | None = None) -> list[StoredLine]:
    """Return the last lines before a number, or of the whole log, oldest first."""
    found: list[StoredLine] = []
    rows = select_chunks(task_id, attempt).order_by("-last")
    while len(found) < limit:
        chosen = rows if before is None else rows.filter(first__lt=before)
        chunks = [Chunk(*row) for row in chosen[:CHUNKS_PER_READ]]
        lines = [line for chunk in reversed(chunks) for line in chunk.lines() if before is None or line.number < before]
        found = [*lines, *found]
        if len(chunks) < CHUNKS_PER_READ:
            break
        before = chunks[-1].first
    return found[-limit:]


def iterate(task_id: str, attempt: int | None = None) -> Iterator[StoredLine]:
    """Yield all lines, oldest first, in memory that does not depend on their number."""
    after = 0
    while lines := read_after(task_id, after, 1_000, attempt):
        yield from lines
        after = lines[-1].number


def search(task_id: str, text: str, limit: int, attempt: int | None = None) -> list[StoredLine]:
    """Return the last lines that contain a text, upper and lower case alike."""
    wanted = text.casefold()
    found = [line for line in iterate(task_id, attempt) if wanted in line.text.casefold()]
    return found[-limit:]


def list_attempts(task_id: str) -> list[int]:
    """Return the attempts that have a log, oldest first."""
    rows = LogChunk.objects.filter(task_id=task_id).values_list("attempt", flat=True).distinct()
    return sorted(rows)


def find_last_numbers(task_ids: Iterable[str]) -> dict[str, int]:
    rows = LogChunk.objects.filter(task_id__in=list(task_ids)).values("task_id").annotate(last=Max("last"))
    return {row["task_id"]: row["last"] for row in rows}


# One statement for all logs that are followed; those that do not fit are read by the next one.
NEWS = {
    "postgresql": "jsonb_to_recordset(%s::jsonb) AS known(task text, after bigint) "
    "JOIN statecore_logchunk AS chunk ON chunk.task_id = known.task AND chunk.last > known.after",
    "sqlite": "json_each(%s) AS known JOIN statecore_logchunk AS chunk "
    "ON chunk.task_id = known.value ->> 'task' AND chunk.last > known.value ->> 'after'",
}


def read_news(known: Mapping[str, int], limit: int) -> list[Chunk]:
    """Return the chunks after the last known number of each task, at most `limit`, those of a task in order."""
    given = json.dumps([{"task": task_id, "after": after} for task_id, after in known.items()])
    statement = f"SELECT chunk.* FROM {NEWS[connection.vendor]} ORDER BY chunk.task_id, chunk.last LIMIT {limit}"  # noqa: S608
    rows = LogChunk.objects.raw(statement, [given])
    return [Chunk(*(getattr(row, name) for name in COLUMNS)) for row in rows]


class TaskState(NamedTuple):
    attempt: int
    state: str

    def choose_attempt(self) -> int:
        """Return the attempt that a reader follows: the current one, or the next one if the task waits for it."""
        return self.attempt + 1 if self.state in UNCLAIMED else self.attempt

    def has_ended(self, attempt: int) -> bool:
        """Whether no line will be added to the log of an attempt."""
        if self.attempt > attempt or Task.flow.is_final(self.state):
            return True
        return self.attempt == attempt and self.state != State.RUNNING


def read_states(task_ids: Iterable[str]) -> dict[str, TaskState]:
    rows = Task.objects.filter(pk__in=list(task_ids)).values_list("pk", "attempt", "state")
    return {pk: TaskState(attempt, state) for pk, attempt, state in rows}
