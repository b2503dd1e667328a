"""Exact counts per state, transition and operator, as of the sink's cursor, and their reconciliation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import structlog
from django.db import connection, transaction

from ...journal import TRANSITION_KINDS, EventKind, commit_order
from ...journal.archive import get_last_archived_position, sum_counters
from ...journal.commit_order import EVENTS
from ...journal.position import Numbering, Position
from ...kernel import registry
from ...kernel.flow import Flow
from ...records import OverrideCount, SinkCursor, StateCount, TransitionCount
from ...records.counter import COUNTERS_SINK
from ...storage.snapshot import consistent_snapshot
from ...storage.sql_params import in_clause, in_param
from .counting import Counts, Key, add_counts, list_columns
from .sink import Batch, Sink

log = structlog.get_logger(__name__)

ROWS_PER_QUERY = 1_000  # of a reconciliation


class Counters(Sink):
    name = COUNTERS_SINK

    def deliver(self, batch: Batch) -> None:
        """Writes one row per kind of change: a batch of a thousand events touches a few dozen rows."""
        transitions: Counter[Key] = Counter()
        overrides: Counter[Key] = Counter()
        for event in batch:
            entry = event.entry
            if entry.kind not in TRANSITION_KINDS:
                continue
            transitions[entry.entity_type, entry.from_state, entry.to_state] += 1
            if entry.kind == EventKind.OVERRIDE:
                overrides[entry.entity_type, entry.actor] += 1
        add_counts(StateCount, _sum_states(transitions))
        add_counts(TransitionCount, transitions)
        add_counts(OverrideCount, overrides)


def _sum_states(transitions: Counts) -> Counter[Key]:
    """Returns by how much these transitions change the number of entities in each state."""
    changes: Counter[Key] = Counter()
    for (entity_type, from_state, to_state), count in transitions.items():
        changes[entity_type, to_state] += count
        if from_state:
            changes[entity_type, from_state] -= count
    return Counter({key: count for key, count in changes.items() if count})


class Difference(NamedTuple):
    """A counter that is wrong: its stored value and the correct one."""

    counter: str
    key: Key
    stored: int
    actual: int


Differences = dict[Any, list[Difference]]  # by the counters' model


def reconcile() -> list[Difference]:
    """Compares the counters with a fresh count as of the same position, and corrects those that differ.

    Rows are counted in small batches, so no query takes long, and the result is exact while writes continue:

    - Numbered events never change. Those up to the counters' cursor are counted outside a transaction, because a
      snapshot held that long would keep the dead versions of every busy row.
    - The tables do change. They are counted in one snapshot, together with the counters, their cursor and the events
      after it, which are subtracted again.

    A difference stays the same while the counters advance, so correcting means adding it.
    """
    cursor = SinkCursor.objects.filter(sink=Counters.name).first()
    if cursor is None:
        return []
    found = _compare_with_journal() | _compare_with_tables()
    wrong = [difference for differences in found.values() for difference in differences]
    if wrong and _repair(found, cursor.revision):
        log.error("counters_repaired", differences=[str(difference) for difference in wrong[:20]], count=len(wrong))
    return wrong


def _compare_with_journal() -> Differences:
    with consistent_snapshot():
        archived, position = get_last_archived_position(), _get_counters_position()
        actual = {TransitionCount: sum_counters("transitions"), OverrideCount: sum_counters("forced")}
        stored = {model: _load_counts(model) for model in actual}
    for events in _count_events_between(archived, position):
        actual[TransitionCount].update(_sum_transitions(events))
        actual[OverrideCount].update(_sum_overrides(events))
    if get_last_archived_position() != archived:
        return {}  # events may have been archived before they were counted; the next run compares again
    return {model: list(_find_differences(model, stored[model], counts)) for model, counts in actual.items()}


def _compare_with_tables() -> Differences:
    with consistent_snapshot():
        actual = Counter({key: count for flow in registry.flows() for key, count in _count_rows_by_state(flow).items()})
        actual.subtract(_sum_states(_sum_transitions(_count_events_after(_get_counters_position()))))
        return {StateCount: list(_find_differences(StateCount, _load_counts(StateCount), actual))}


def _repair(found: Differences, revision: int) -> bool:
    """Adds the differences to the counters; returns False, and adds nothing, if a concurrent run has repaired them."""
    with transaction.atomic():
        # The cursor comes last, as when a batch is delivered: the opposite order would deadlock.
        for model, differences in found.items():
            add_counts(model, {each.key: each.actual - each.stored for each in differences})
        unchanged = SinkCursor.objects.filter(sink=Counters.name, revision=revision)
        is_first = bool(unchanged.update(revision=revision + 1))
        if not is_first:
            transaction.set_rollback(True)
    return is_first


def _get_counters_position() -> int:
    return SinkCursor.objects.values_list("position", flat=True).get(sink=Counters.name)


def _load_counts(model: Any) -> dict[Key, int]:
    return {tuple(key): count for *key, count in model.objects.values_list(*list_columns(model).keys, "count")}


def _find_differences(model: Any, stored: Mapping[Key, int], actual: Counter[Key]) -> Iterator[Difference]:
    for key in sorted({*actual, *stored}):
        if actual[key] != stored.get(key, 0):
            yield Difference(model._meta.model_name, key, stored.get(key, 0), actual[key])


def _count_events_after(position: int) -> Counter[Key]:
    """Counts the events after a position, and the few that have no position yet."""
    numbering = Numbering.objects.first() or Numbering()
    new = commit_order.select_unnumbered(numbering.seen)
    return sum(_count_events_between(position, numbering.head), _count_events(new.condition, new.params))


def _count_events_between(after: int, last: int) -> Iterator[Counter[Key]]:
    """Yields the counts of some events at a time. They are selected by id, so that every planner uses the index."""
    for first in range(after + 1, last + 1, ROWS_PER_QUERY):
        within = Position.objects.filter(position__range=(first, min(last, first + ROWS_PER_QUERY - 1)))
        ids = list(within.values_list("event_id", flat=True))
        if ids:
            vendor = connection.vendor
            yield _count_events(f"e.event_id {in_clause(vendor, len(ids))}", [in_param(ids, vendor)])


_KINDS = ", ".join(f"'{kind}'" for kind in TRANSITION_KINDS)
_OVERRIDDEN_BY = f"CASE WHEN e.kind = '{EventKind.OVERRIDE.value}' THEN e.actor END"


def _count_events(where: str, params: list[Any]) -> Counter[Key]:
    """Counts events by transition and, for overrides, by operator; edits and accounts have none."""
    return _query_counts(
        f"SELECT e.entity_type, e.from_state, e.to_state, {_OVERRIDDEN_BY}, count(*) FROM {EVENTS} AS e "
        f"WHERE e.kind IN ({_KINDS}) AND {where} "
        f"GROUP BY e.entity_type, e.from_state, e.to_state, {_OVERRIDDEN_BY}",
        params,
    )


def _sum_transitions(events: Counter[Key]) -> Counter[Key]:
    sums: Counter[Key] = Counter()
    for (*transition, _operator), count in events.items():
        sums[tuple(transition)] += count
    return sums


def _sum_overrides(events: Counter[Key]) -> Counter[Key]:
    sums: Counter[Key] = Counter()
    for (entity_type, _from, _to, operator), count in events.items():
        if operator is not None:
            sums[entity_type, operator] += count
    return sums


def _count_rows_by_state(flow: Flow) -> Counter[Key]:
    """Counts the rows by state, in batches. The database returns the last id of a batch: it knows its collation."""
    counts: Counter[Key] = Counter()
    some = f"SELECT id, state FROM {flow.model._meta.db_table} WHERE id > %s ORDER BY id LIMIT {ROWS_PER_QUERY}"
    query, last = f"SELECT max(max(id)) OVER (), state, count(*) FROM ({some}) AS batch GROUP BY state", ""
    while batch := _query_counts(query, [last]):
        counts.update({(flow.entity_type, state): count for (_last, state), count in batch.items()})
        last, _state = next(iter(batch))
    return counts


def _query_counts(query: str, params: list[Any]) -> Counter[Key]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return Counter({tuple(key): count for *key, count in cursor.fetchall()})
