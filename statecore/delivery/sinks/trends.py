"""Roll-ups by minute, hour and day: transitions, times in states, and samples of the load.

Events are counted in memory and written at most once a second, so that an event costs no statement. The position up to
which they are written commits together with the counts. After a kill the sink therefore continues there: the events
after it are delivered again, and none is lost or counted twice. A new sink starts with the first event of the journal.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models, transaction

from ...journal import TRANSITION_KINDS, Entry, EventKind, dwell_seconds
from ...kernel import registry
from ...kernel.clock import now
from ...kernel.transition import ERRORS
from ...machines.task import State, Task
from ...records import CapabilityRollUp, DwellRollUp, LoadRollUp, TransitionRollUp, sink_cursor
from ...records.roll_up import RETENTION, ROLL_UPS, TRENDS_SINK, Resolution, find_bucket
from .counting import Counts, Key, add_counts
from .load_samples import sample_load
from .sink import Batch, Sink

WRITE_SECONDS = 1.0
DELETE_EVERY = timedelta(hours=1)
TASKS_PER_QUERY = 500
MEASURED = {State.QUEUED.value, State.RUNNING.value}  # the states whose times are known by capability


class Superseded(RuntimeError):
    """Another sequencer has written roll-ups since this one read their position."""


class Pending:
    """What has been counted by minute and is not written yet."""

    def __init__(self) -> None:
        self.transitions: dict[Key, list[int]] = {}
        self.dwells: Counter[Key] = Counter()
        # Minute, state, bucket and failures of each stay, by task.
        self.stays: dict[str, list[tuple[datetime, str, int, int]]] = defaultdict(list)

    def count(self, entry: Entry) -> None:
        if entry.kind not in TRANSITION_KINDS:
            return
        entity_type, state, minute = entry.entity_type, entry.from_state, Resolution.MINUTE.truncate(entry.timestamp)
        is_override, is_failure = entry.kind == EventKind.OVERRIDE, _is_failure(entry)
        numbers = self.transitions.setdefault((minute, entity_type, state, entry.to_state), [0, 0, 0])
        numbers[0] += 1
        numbers[1] += is_failure
        numbers[2] += is_override
        if state and not is_override:
            bucket = find_bucket(dwell_seconds(entry.body))
            self.dwells[minute, entity_type, state, bucket] += 1
            if entity_type == Task.flow.entity_type and state in MEASURED:
                self.stays[entry.entity_id].append((minute, state, bucket, is_failure))

    def build(self, at: datetime) -> Iterator[tuple[type[models.Model], Counts]]:
        """Yields the rows to add, by table."""
        transitions: dict[Key, list[int]] = {}
        for (minute, *rest), numbers in self.transitions.items():
            for resolution, start in _list_periods(minute, at):
                _add(transitions, (resolution, start, *rest), numbers)
        dwells: Counter[Key] = Counter()
        for (minute, entity_type, state, bucket), count in self.dwells.items():
            for resolution, start in _list_periods(minute, at):
                dwells[resolution, entity_type, state, start, bucket] += count
        yield TransitionRollUp, transitions
        yield DwellRollUp, dwells
        yield CapabilityRollUp, self._build_capabilities(at)

    def _build_capabilities(self, at: datetime) -> dict[Key, list[int]]:
        found: dict[Key, list[int]] = {}
        for task, capabilities in _read_capabilities(self.stays):
            for capability in capabilities:
                for minute, state, bucket, is_failure in self.stays[task]:
                    for resolution, start in _list_periods(minute, at):
                        _add(found, (resolution, capability, state, start, bucket), (1, is_failure))
        return found


def _is_failure(entry: Entry) -> int:
    """Whether a transition is an error or leads to a failure: an override does so with a warning only."""
    flow = registry.find(entry.entity_type)
    return int(entry.severity in ERRORS or (flow is not None and entry.to_state in flow.failures))


def _list_periods(minute: datetime, at: datetime) -> Iterator[tuple[int, Any]]:
    """Yields the periods that contain a minute and are kept, as the database stores them."""
    for resolution, kept in RETENTION.items():
        if minute >= at - kept:
            start = resolution.truncate(minute)
            yield resolution.value, connection.ops.adapt_datetimefield_value(start)


def _add(rows: dict[Key, list[int]], key: Key, numbers: Iterable[int]) -> None:
    sums = rows.get(key)
    rows[key] = [*numbers] if sums is None else [a + b for a, b in zip(sums, numbers, strict=True)]


def _read_capabilities(tasks: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    ids = sorted(tasks)
    for first in range(0, len(ids), TASKS_PER_QUERY):
        some = Task.objects.filter(pk__in=ids[first : first + TASKS_PER_QUERY])
        yield from some.order_by().values_list("pk", "required_capabilities")


class Trends(Sink):
    name = TRENDS_SINK

    def __init__(self) -> None:
        self.pending = Pending()
        self.written = self.last = 0
        self.next_write = 0.0
        self.sampled: datetime | None = None
        self.next_deletion: datetime | None = None

    def recover(self, cursor: int) -> int:
        """Continues after the last written position, and forgets what was counted since."""
        self.pending = Pending()
        self.written = sink_cursor.get_written(self.name)
        # A failover may have lost positions that were written.
        self.last = min(self.written, cursor)
        return self.last

    def deliver(self, batch: Batch) -> None:
        for event in batch:
            self.pending.count(event.entry)
        self.last = batch[-1].position
        if time.monotonic() >= self.next_write:
            self._write(now())

    def tick(self, at: datetime) -> None:
        self._write(at)
        if self.sampled != (minute := Resolution.MINUTE.truncate(at)):
            self.sampled = minute
            periods = list(_list_periods(minute, at))
            samples = sample_load(at)
            add_counts(
                LoadRollUp,
                {(*period, *key): [number, 1] for period in periods for key, number in samples.items()},
            )
        if self.next_deletion is None or at >= self.next_deletion:
            self.next_deletion = at + DELETE_EVERY
            _delete_old_rows(at)

    def _write(self, at: datetime) -> None:
        """Writes what is pending, in the transaction of the delivery if there is one."""
        if self.last == self.written:
            return
        with transaction.atomic():
            if not sink_cursor.advance_written(self.name, self.written, self.last):
                raise Superseded("another sequencer has written roll-ups")
            for model, counts in self.pending.build(at):
                add_counts(model, counts)
        self.pending, self.written, self.next_write = Pending(), self.last, time.monotonic() + WRITE_SECONDS


def _delete_old_rows(at: datetime) -> None:
    for model in ROLL_UPS:
        for resolution, kept in RETENTION.items():
            rows: Any = model._default_manager.filter(resolution=resolution, start__lt=at - kept)
            rows.delete()
