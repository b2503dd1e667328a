"""The indexes every machine needs, and how a query asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Index, Q, Value


def live_by_state(table: str, final: Iterable[str]) -> Index:
    """For whoever looks for what has been in a state for too long: final rows are many and never wanted."""
    return Index(fields=("state", "state_entered_at"), condition=_live(final), name=f"{table}_live_by_state")


def awaited_by_state(table: str, final: Iterable[str]) -> Index:
    """The same without what nobody waits for any more: that stays in its state for ever, and would pile up."""
    awaited = _live(final) & Q(abandoned=False)
    return Index(fields=("state", "state_entered_at"), condition=awaited, name=f"{table}_awaited_by_state")


def lost_by_parent(table: str, parent: str, state: str) -> Index:
    """For whoever asks of a live parent whether a child has ended so that it will never be done: few children have."""
    return Index(fields=(parent,), condition=Q(state=str(state)), name=f"{table}_{state}_by_{parent}")


def open_by_parent(table: str, parent: str, done: Iterable[str]) -> Index:
    """For whoever asks of a parent whether a child is left that is not done: most are."""
    return Index(fields=(parent,), condition=_live(done), name=f"{table}_open_by_{parent}")


def _live(final: Iterable[str]) -> Q:
    return ~Q(state__in=sorted(map(str, final)))


class Literal(Value):
    """A name that stands in the statement itself; only for what needs no escape, such as states."""

    def as_sql(self, *_: Any, **__: Any) -> tuple[str, tuple[str | int, ...]]:
        return f"'{self.value}'", ()


def is_live(final: Iterable[str], path: str = "") -> Q:
    """The condition of `live_by_state` in a query: SQLite compares it word by word, and takes no parameter for one."""
    return ~Q(**{f"{path}state__in": [Literal(str(state)) for state in sorted(map(str, final))]})
