"""The rules a row obeys in the database itself, said in one line each."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import CheckConstraint, F, Q, TextChoices


def known_state(table: str, states: type[TextChoices]) -> CheckConstraint:
    return CheckConstraint(condition=Q(state__in=states.values), name=f"{table}_state_is_known")


def set_exactly_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    inside = Q(state__in=sorted(map(str, states)))
    filled = Q(**{f"{field}__isnull": False})
    return CheckConstraint(condition=(inside & filled) | (~inside & ~filled), name=f"{table}_{field}_exactly_in_state")


def set_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    inside = Q(state__in=sorted(map(str, states)))
    return CheckConstraint(condition=~inside | Q(**{f"{field}__isnull": False}), name=f"{table}_{field}_set_in_state")


def filled_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    """For texts, where empty means missing."""
    inside = Q(state__in=sorted(map(str, states)))
    return CheckConstraint(condition=~inside | ~Q(**{field: ""}), name=f"{table}_{field}_filled_in_state")


def unset_in(table: str, field: str, states: Iterable[str]) -> CheckConstraint:
    inside = Q(state__in=sorted(map(str, states)))
    return CheckConstraint(condition=~inside | Q(**{f"{field}__isnull": True}), name=f"{table}_{field}_unset_in_state")


def in_order(table: str, earlier: str, later: str) -> CheckConstraint:
    either_missing = Q(**{f"{earlier}__isnull": True}) | Q(**{f"{later}__isnull": True})
    return CheckConstraint(
        condition=either_missing | Q(**{f"{later}__gte": F(earlier)}),
        name=f"{table}_{earlier}_before_{later}",
    )


def at_most(table: str, field: str, limit: str) -> CheckConstraint:
    return CheckConstraint(condition=Q(**{f"{field}__lte": F(limit)}), name=f"{table}_{field}_at_most_{limit}")


def between(table: str, field: str, low: int, high: int) -> CheckConstraint:
    return CheckConstraint(
        condition=Q(**{f"{field}__gte": low}) & Q(**{f"{field}__lte": high}),
        name=f"{table}_{field}_in_range",
    )


def one_of(table: str, field: str, choices: type[TextChoices]) -> CheckConstraint:
    return CheckConstraint(condition=Q(**{f"{field}__in": choices.values}), name=f"{table}_{field}_is_known")
