"""Exact counts per machine and state, per transition, per operator and per minute, as of the sink's cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from django.db import connection, models, transaction

from ..journal import EventKind
from ..kernel import registry
from ..kernel.moves import Severity
from ..kernel.one_moment import one_moment
from ..records import OverrideCount, SinkCursor, StateCount, TransitionCount, TransitionRate, commit_order
from ..records.commit_order import EVENTS, POSITIONS
from ..records.position import Numbering
from ..records.retirement import tallied
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


def reconcile() -> list[Difference]:
    """Compare the counters with a fresh count as of the same position, and put right what differs.

    All is read at one moment: the counters at their cursor, the tables, what the retired events add up to, and the
    events the counters have not had yet, which are taken off again. So it is exact while writes go on. A difference
    stays the same difference however far the counters have come since, so it is simply added.
    """
    with one_moment():
        cursor = SinkCursor.objects.filter(sink=Counters.name).first()
        if cursor is None:
            return []
        later = _later(cursor.position)
        truths = {
            StateCount: _taken_off(_fresh_states(), _states(later["moves"])),
            TransitionCount: _taken_off(_fresh(EVENTS, MOVE) + tallied("moves"), later["moves"]),
            OverrideCount: _taken_off(_fresh(EVENTS, FORCED, OVERRIDES) + tallied("forced"), later["forced"]),
        }
        found = {model: list(_differences(model, truth)) for model, truth in truths.items()}
    wrong = [difference for differences in found.values() for difference in differences]
    if wrong and _repair(found, cursor.revision):
        log.error("counters_repaired", differences=[str(difference) for difference in wrong[:20]], count=len(wrong))
    return wrong


def _repair(found: Mapping[Any, list[Difference]], revision: int) -> bool:
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


MOVE = "entity_type, from_state, to_state"
FORCED = "entity_type, actor"
OVERRIDES = f"kind = '{EventKind.OVERRIDE.value}'"


def _later(position: int) -> dict[str, Counter[Key]]:
    """What the events behind the cursor add up to: those numbered since, and those not numbered yet."""
    seen = Numbering.objects.values_list("seen", flat=True).first() or ""
    new = commit_order.unnumbered(seen)
    numbered = f"{POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id)"
    found: dict[str, Counter[Key]] = {"moves": Counter(), "forced": Counter()}
    for what, columns, condition in (("moves", MOVE, "TRUE"), ("forced", FORCED, f"e.{OVERRIDES}")):
        qualified = ", ".join(f"e.{name}" for name in columns.split(", "))
        found[what] += _fresh(numbered, qualified, f"p.position > %s AND {condition}", [position])
        found[what] += _fresh(f"{EVENTS} AS e", qualified, f"{new.condition} AND {condition}", new.params)
    return found


def _fresh_states() -> Counter[Key]:
    found: Counter[Key] = Counter()
    for flow in registry.flows():
        counted = flow.model.objects.order_by().values_list("state").annotate(rows=models.Count("*"))
        found.update({(flow.entity_type, state): count for state, count in counted})
    return found


def _fresh(table: str, columns: str, where: str = "TRUE", params: Iterable[Any] = ()) -> Counter[Key]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns}, count(*) FROM {table} WHERE {where} GROUP BY {columns}", list(params))
        return Counter({tuple(key): count for *key, count in cursor.fetchall()})


def _taken_off(fresh: Counter[Key], later: Counter[Key]) -> Counter[Key]:
    truth = Counter(fresh)
    truth.subtract(later)
    return truth


def _differences(model: Any, truth: Counter[Key]) -> Iterable[Difference]:
    counted = {tuple(key): count for *key, count in model.objects.values_list(*KEYS[model], "count")}
    for key in sorted({*truth, *counted}):
        if truth[key] != counted.get(key, 0):
            yield Difference(model._meta.model_name, key, counted.get(key, 0), truth[key])
