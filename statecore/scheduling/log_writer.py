"""Writes the log of an attempt: only its holder may, as long as it holds the task.

Every call stores its lines as one chunk with the next numbers of the task. The row that gives out the numbers is
locked, so that there is neither a gap nor a duplicate, however many calls come at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec
from django.conf import settings
from django.db import transaction

from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.refusals import LeaseLost, LogGap, LogTooFast, Unmet
from ..machines.task import Task
from ..records.task_log import LogChunk, TaskLog
from ..transitions import rights
from ..transitions.unit_of_work import UnitOfWork, retry_transient
from .heartbeats import find_held
from .log_text import clean_line

MAX_LINES = 1_000  # in one call
CHUNK_OVERHEAD = 100  # bytes that a chunk takes beside its lines
BURST_SECONDS = 16
# A log that is too long is cut to this part, so that not each call has to delete.
KEPT_PART = 0.9


class NewLine(NamedTuple):
    stream: str
    text: str
    at: str | None  # the time at the agent


class Encoded(NamedTuple):
    """Lines as they are stored."""

    number: int  # of lines
    body: str
    size: int

    @classmethod
    def encode(cls, lines: Sequence[NewLine]) -> Encoded:
        body = msgspec.json.encode([(line.stream, clean_line(line.text), line.at) for line in lines]).decode()
        return cls(len(lines), body, len(body) + CHUNK_OVERHEAD)


def append(
    task_id: str,
    attempt: int,
    lines: Sequence[NewLine],
    *,
    actor: Actor,
    offset: int | None = None,
    within: UnitOfWork | None = None,
) -> int:
    """Store lines of an attempt and return the number of the line that is written next.

    With `offset`, the number of lines of the attempt that were sent before, a repeated call stores nothing twice.
    Raises NotFound, PermissionDenied, NotTheHolder, LeaseLost, LogTooFast, and LogGap if lines before are missing.
    """
    rights.require(actor, Task.flow, "operate")
    find_held(Task, task_id, actor, attempt, takes="log lines")
    store = partial(_store, task_id, attempt, lines, offset)
    return store() if within is not None else retry_transient(partial(_store_in_transaction, store))


def _store_in_transaction(store: partial[int]) -> int:
    with transaction.atomic():
        return store()


def _store(task_id: str, attempt: int, lines: Sequence[NewLine], offset: int | None) -> int:
    at = now()
    log = _lock(task_id, attempt, at)
    if offset is not None:
        lines = lines[_count_stored(log, offset) :]
    if not lines:
        return log.next
    _number, body, size = Encoded.encode(lines)
    _charge(log, size, at)
    first, log.next, log.size = log.next, log.next + len(lines), log.size + size
    LogChunk.objects.create(
        task_id=task_id, attempt=attempt, first=first, last=log.next - 1, at=at, body=body, size=size
    )
    if log.size > settings.STATECORE_TASK_LOG_BYTES:
        log.size = drop_oldest(log, int(settings.STATECORE_TASK_LOG_BYTES * KEPT_PART), at)
    log.save(update_fields=["attempt", "first", "next", "size", "paid_until"])
    return log.next


def _lock(task_id: str, attempt: int, at: datetime) -> TaskLog:
    """Return the locked row of the task, at this attempt; raises LeaseLost if a later attempt has written lines."""
    rows = TaskLog.objects.select_for_update(of=("self",))
    log = rows.filter(pk=task_id).first()
    if log is None:
        new = {"attempt": attempt, "first": 1, "next": 1, "size": 0, "paid_until": at, "started_at": at}
        TaskLog.objects.get_or_create(task_id=task_id, defaults=new)  # another call may be first
        log = rows.get(pk=task_id)
    if log.attempt > attempt:
        unmet = Unmet(LeaseLost.code, f"attempt {log.attempt} has begun", task_id)
        raise LeaseLost("log lines", [unmet], entity=task_id)
    if log.attempt < attempt:
        log.attempt, log.first, log.size = attempt, log.next, 0
    return log


def _count_stored(log: TaskLog, offset: int) -> int:
    """Return how many of the lines after the offset are stored already."""
    stored = log.next - log.first
    if offset > stored:
        raise LogGap(f"{stored} lines of attempt {log.attempt} are stored, not {offset}", offset=stored)
    return stored - offset


def _charge(log: TaskLog, size: int, at: datetime) -> None:
    """Count bytes against the rate of the task; raises LogTooFast with the seconds until they are permitted."""
    rate = settings.STATECORE_TASK_LOG_BYTES_PER_SECOND
    paid_until = max(log.paid_until, at) + timedelta(seconds=size / rate)
    ahead = (paid_until - at).total_seconds() - max(BURST_SECONDS, size / rate)
    if ahead > 0:
        raise LogTooFast(
            f"task {log.task_id} writes more than {rate} bytes of log per second", retry_after=max(1, math.ceil(ahead))
        )
    log.paid_until = paid_until


def drop_oldest(log: TaskLog, limit: int, at: datetime) -> int:
    """Replace the oldest chunks of the attempt by one that says so; return the bytes that remain.

    The lines keep their numbers, so that a reader finds no gap.
    """
    chunks = LogChunk.objects.filter(task_id=log.task_id, attempt=log.attempt).order_by("last")
    size, last = log.size, 0
    for chunk_size, chunk_last in chunks.values_list("size", "last").iterator():
        if size <= limit or chunk_last == log.next - 1:
            break
        size, last = size - chunk_size, chunk_last
    if not last:
        return size
    chunks.filter(last__lte=last).delete()
    LogChunk.objects.create(
        task_id=log.task_id, attempt=log.attempt, first=log.first, last=last, at=at, body="", size=CHUNK_OVERHEAD
    )
    return size + CHUNK_OVERHEAD
