"""What machines declare about their tables: check constraints, indexes, and invariants between rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any

from django.db.models import CheckConstraint, F, Index, Q, TextChoices, Value


def one_of(table: str, field: str, choices: type[TextChoices]) -> CheckConstraint:
    return CheckConstraint(condition=Q(**{f"{field}__in": choices.values}), name=f"{table}_{field}_is_known")


def set_exactly_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    inside, filled = _in(states), Q(**{f"{field}__isnull": False})
    return CheckConstraint(condition=(inside & filled) | (~inside & ~filled), name=f"{table}_{field}_exactly_in_state")


def set_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    filled = Q(**{f"{field}__isnull": False})
    return CheckConstraint(condition=~_in(states) | filled, name=f"{table}_{field}_set_in_state")


def unset_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    empty = Q(**{f"{field}__isnull": True})
    return CheckConstraint(condition=~_in(states) | empty, name=f"{table}_{field}_unset_in_state")


def filled_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    """Like `set_in`, for texts, where empty means missing."""
    return CheckConstraint(condition=~_in(states) | ~Q(**{field: ""}), name=f"{table}_{field}_filled_in_state")


def filled_exactly_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    inside, empty = _in(states), Q(**{field: ""})
    return CheckConstraint(condition=(inside & ~empty) | (~inside & empty), name=f"{table}_{field}_exactly_in_state")


def in_time_order(table: str, *fields: str) -> Iterator[CheckConstraint]:
    """Requires each timestamp to be no earlier than those before it; NULLs are ignored."""
    for earlier, later in combinations(fields, 2):
        either_missing = Q(**{f"{earlier}__isnull": True}) | Q(**{f"{later}__isnull": True})
        in_order = Q(**{f"{later}__gte": F(earlier)})
        yield CheckConstraint(condition=either_missing | in_order, name=f"{table}_{earlier}_before_{later}")


def at_most(table: str, field: str, limit: str) -> CheckConstraint:
    return CheckConstraint(condition=Q(**{f"{field}__lte": F(limit)}), name=f"{table}_{field}_at_most_{limit}")


def between(table: str, field: str, low: int, high: int) -> CheckConstraint:
    inside = Q(**{f"{field}__gte": low}) & Q(**{f"{field}__lte": high})
    return CheckConstraint(condition=inside, name=f"{table}_{field}_in_range")


def _in(states: Iterable[str]) -> Q:
    return Q(state__in=sorted(map(str, states)))


def live_by_state(table: str, final: Iterable[str]) -> Index:
    """For finding overdue entities. Most rows are final, and those are never overdue."""
    return Index(fields=("state", "state_entered_at"), condition=~_in(final), name=f"{table}_live_by_state")


def awaited_by_state(table: str, final: Iterable[str]) -> Index:
    """Like `live_by_state`, without abandoned rows, which keep their state and would accumulate."""
    awaited = ~_in(final) & Q(abandoned=False)
    return Index(fields=("state", "state_entered_at"), condition=awaited, name=f"{table}_awaited_by_state")


def lost_by_parent(table: str, parent: str, state: str) -> Index:
    """For finding the few children of a live parent that ended in a state such as `failed`."""
    return Index(fields=(parent,), condition=Q(state=str(state)), name=f"{table}_{state}_by_{parent}")


def open_by_parent(table: str, parent: str, done: Iterable[str]) -> Index:
    """For finding the few children of a parent that are not done yet."""
    return Index(fields=(parent,), condition=~_in(done), name=f"{table}_open_by_{parent}")


class SqlLiteral(Value):
    """A value inlined into the statement; only for values that need no escaping, such as states."""

    def as_sql(self, *_: Any, **__: Any) -> tuple[str, tuple[str | int, ...]]:
        return f"'{self.value}'", ()


def is_live(final: Iterable[str], path: str = "") -> Q:
    """Returns the condition of `live_by_state` for a query.

    The states are inlined: SQLite uses a partial index only if the query repeats its condition without parameters.
    """
    return ~Q(**{f"{path}state__in": [SqlLiteral(str(state)) for state in sorted(map(str, final))]})


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule between entities that no constraint can express.

    `broken` returns the condition that violates it at a given time, and `sentence` states what is wrong then. One that
    is broken merely because time passes is a matter of deadlines and sweeps, not of corruption.
    """

    name: str
    sentence: str
    broken: Callable[[datetime], Q]
    breaks_by_waiting: bool = False
