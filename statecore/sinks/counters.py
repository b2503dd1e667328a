"""Exact counts per machine and state, per transition, per operator and per minute, as of the sink's cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from django.db import connection, models, transaction

from ..journal import EventKind
from ..kernel import registry
from ..kernel.flow import Flow
from ..kernel.many import among, listed
from ..kernel.moves import Severity
from ..kernel.one_moment import one_moment
from ..records import OverrideCount, SinkCursor, StateCount, TransitionCount, TransitionRate, commit_order
from ..records.commit_order import EVENTS
from ..records.position import Numbering, Position
from ..records.retirement import horizon, tallied
from .numbered import Batch
from .sink import Sink

log = structlog.get_logger(__name__)

KEPT = timedelta(days=2)
FAILURES = {Severity.ERROR, Severity.CRITICAL}
Key = tuple[Any, ...]
Counts = Mapping[Key, Any]


class Counters(Sink):
    name = "counters"

    def deliver(self, batch: Batch) -> None:
        """As few rows as there are different kinds of change: a batch of a thousand touches a few dozen."""
        moves: Counter[Key] = Counter()
        forced: Counter[Key] = Counter()
        rates: dict[Key, list[int]] = {}
        for event in batch:
            entry = event.entry
            move = (entry.entity_type, entry.from_state, entry.to_state)
            is_forced = entry.kind == EventKind.OVERRIDE
            moves[move] += 1
            minute = connection.ops.adapt_datetimefield_value(entry.timestamp.replace(second=0, microsecond=0))
            rate = rates.setdefault((minute, *move), [0, 0, 0])
            rate[0] += 1
            rate[1] += entry.severity in FAILURES
            if is_forced:
                rate[2] += 1
                forced[entry.entity_type, entry.actor] += 1
        add(StateCount, _states(moves))
        add(TransitionCount, moves)
        add(OverrideCount, forced)
        add(TransitionRate, rates)

    def tick(self, at: datetime) -> None:
        TransitionRate.objects.filter(minute__lt=at - KEPT).delete()


def _states(moves: Counts) -> Counter[Key]:
    """How many more there are in each state after these moves."""
    found: Counter[Key] = Counter()
    for (entity_type, from_state, to_state), count in moves.items():
        found[entity_type, to_state] += count
        if from_state:
            found[entity_type, from_state] -= count
    return Counter({key: count for key, count in found.items() if count})


KEYS: dict[type[models.Model], tuple[str, ...]] = {
    StateCount: ("entity_type", "state"),
    TransitionCount: ("entity_type", "from_state", "to_state"),
    OverrideCount: ("entity_type", "operator"),
    TransitionRate: ("minute", "entity_type", "from_state", "to_state"),
}
NUMBERS: dict[type[models.Model], tuple[str, ...]] = {TransitionRate: ("count", "failures", "overrides")}


def add(model: type[models.Model], counts: Counts) -> None:
    """Add to the rows there are, and make those there are not, in one statement."""
    if not counts:
        return
    keys, numbers, table = KEYS[model], NUMBERS.get(model, ("count",)), model._meta.db_table
    row = f"({', '.join(['%s'] * (len(keys) + len(numbers)))})"
    # In the order of the keys: whoever else adds to the same rows takes them in the same order.
    values = [(*key, *(given if isinstance(given, list) else [given])) for key, given in sorted(counts.items())]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join((*keys, *numbers))}) VALUES {', '.join([row] * len(values))} "
            f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET "
            f"{', '.join(f'{name} = {table}.{name} + excluded.{name}' for name in numbers)}",
            [value for each in values for value in each],
        )


class Difference(NamedTuple):
    """A counter that was wrong, and by how much."""

    counter: str
    key: Key
    counted: int
    truth: int


Found = dict[Any, list[Difference]]  # by the counters' model


def reconcile() -> list[Difference]:
    """Compare the counters with a fresh count as of the same position, and put right what differs.

    A stride at a time, so that no query takes long, however many rows there are. Numbered events never change: those up
    to the cursor of the counters are counted in no transaction at all, for a snapshot as old as that takes would keep
    the dead versions of every row that is busy. What does change, the tables, is read at one moment, and with them the
    counters at their cursor and the events these have not had yet, which are taken off again. So it is exact while
    writes go on. A difference stays the same difference however far the counters have come since, so it is simply
    added.
    """
    cursor = SinkCursor.objects.filter(sink=Counters.name).first()
    if cursor is None:
        return []
    found = _wrong_about_the_journal() | _wrong_about_the_tables()
    wrong = [difference for differences in found.values() for difference in differences]
    if wrong and _repair(found, cursor.revision):
        log.error("counters_repaired", differences=[str(difference) for difference in wrong[:20]], count=len(wrong))
    return wrong


def _wrong_about_the_journal() -> Found:
    with one_moment():
        retired, position = horizon(), _place()
        truths = {TransitionCount: tallied("moves"), OverrideCount: tallied("forced")}
        kept = {model: _kept(model) for model in truths}
    for events in _strides(retired, position):
        truths[TransitionCount].update(_moves(events))
        truths[OverrideCount].update(_forced(events))
    if horizon() != retired:  # some of it may have been gone before it was counted: the next time, then
        return {}
    return {model: list(_differences(model, kept[model], truth)) for model, truth in truths.items()}


def _wrong_about_the_tables() -> Found:
    with one_moment():
        truth = Counter({key: count for flow in registry.flows() for key, count in _in_each_state(flow).items()})
        truth.subtract(_states(_moves(_later(_place()))))
        return {StateCount: list(_differences(StateCount, _kept(StateCount), truth))}


def _repair(found: Found, revision: int) -> bool:
    """False when somebody else has repaired meanwhile: the same difference must not be added twice."""
    with transaction.atomic():
        # The cursor last, as whoever feeds the sink does it: the other way round each would wait for the other.
        for model, differences in found.items():
            add(model, {each.key: each.truth - each.counted for each in differences})
        same = SinkCursor.objects.filter(sink=Counters.name, revision=revision)
        is_first = bool(same.update(revision=revision + 1))
        if not is_first:
            transaction.set_rollback(True)
    return is_first


STRIDE = 1_000  # rows that one query reads
BY = f"CASE WHEN e.kind = '{EventKind.OVERRIDE.value}' THEN e.actor END"


def _place() -> int:
    return SinkCursor.objects.values_list("position", flat=True).get(sink=Counters.name)


def _later(position: int) -> Counter[Key]:
    """The events behind the cursor: those numbered since, and the few that are not numbered yet."""
    standing = Numbering.objects.first() or Numbering()
    new = commit_order.unnumbered(standing.seen)
    return sum(_strides(position, standing.head), _events(new.condition, new.params))


def _strides(after: int, last: int) -> Iterator[Counter[Key]]:
    """The events of these positions, each named: then they are looked up, whatever the planner has been told."""
    for first in range(after + 1, last + 1, STRIDE):
        within = Position.objects.filter(position__range=(first, min(last, first + STRIDE - 1)))
        ids = list(within.values_list("event_id", flat=True))
        if ids:
            vendor = connection.vendor
            yield _events(f"e.event_id {among(vendor, len(ids))}", [listed(ids, vendor)])


def _events(where: str, params: list[Any]) -> Counter[Key]:
    """How many of them made which move, and who has forced it."""
    return _asked(
        f"SELECT e.entity_type, e.from_state, e.to_state, {BY}, count(*) FROM {EVENTS} AS e WHERE {where} "
        f"GROUP BY e.entity_type, e.from_state, e.to_state, {BY}",
        params,
    )


def _moves(events: Counter[Key]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    for (*move, _by), count in events.items():
        found[tuple(move)] += count
    return found


def _forced(events: Counter[Key]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    for (entity_type, _from, _to, by), count in events.items():
        if by is not None:
            found[entity_type, by] += count
    return found


def _in_each_state(flow: Flow) -> Counter[Key]:
    """Along the primary key; which id is the last of a stride is for the database to say, for it has sorted them."""
    found: Counter[Key] = Counter()
    some = f"SELECT id, state FROM {flow.model._meta.db_table} WHERE id > %s ORDER BY id LIMIT {STRIDE}"
    query, last = f"SELECT max(max(id)) OVER (), state, count(*) FROM ({some}) AS stride GROUP BY state", ""
    while stride := _asked(query, [last]):
        found.update({(flow.entity_type, state): count for (_last, state), count in stride.items()})
        last, _state = next(iter(stride))
    return found


def _asked(query: str, params: list[Any]) -> Counter[Key]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return Counter({tuple(key): count for *key, count in cursor.fetchall()})


def _kept(model: Any) -> dict[Key, int]:
    return {tuple(key): count for *key, count in model.objects.values_list(*KEYS[model], "count")}


def _differences(model: Any, kept: Mapping[Key, int], truth: Counter[Key]) -> Iterator[Difference]:
    for key in sorted({*truth, *kept}):
        if truth[key] != kept.get(key, 0):
            yield Difference(model._meta.model_name, key, kept.get(key, 0), truth[key])
