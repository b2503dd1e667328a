"""The rules a row obeys in the database itself, said in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from django.db.models import CheckConstraint, F, Q, TextChoices


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
    """For texts, where empty means missing."""
    return CheckConstraint(condition=~_in(states) | ~Q(**{field: ""}), name=f"{table}_{field}_filled_in_state")


def filled_exactly_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    inside, empty = _in(states), Q(**{field: ""})
    return CheckConstraint(condition=(inside & ~empty) | (~inside & empty), name=f"{table}_{field}_exactly_in_state")


def in_time_order(table: str, *fields: str) -> Iterator[CheckConstraint]:
    """Each moment not before any earlier one; those that are not set do not count."""
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
