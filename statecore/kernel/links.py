"""Looking along links in a guard: for one entity, or for a whole batch with one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from django.db import connection

from .many import among, listed

if TYPE_CHECKING:
    from .entity import Entity

T = TypeVar("T")


class Linked(NamedTuple):
    """What stands at the other end of a link."""

    id: str
    state: str
    retry_of: str | None


class Together:
    """The entities of a batch, while their guards are asked: what one looks up is looked up for all."""

    def __init__(self, entities: list[Entity]) -> None:
        self.ids = [entity.pk for entity in entities]
        self.answers: dict[Any, Any] = dict(_answered.get() or {})


_together: ContextVar[Together | None] = ContextVar("statecore_together", default=None)
_answered: ContextVar[dict[Any, Any] | None] = ContextVar("statecore_answered", default=None)


@contextmanager
def answered(answers: dict[Any, Any]) -> Iterator[None]:
    """Answers that whoever moves a batch has found already, under the locks it holds."""
    token = _answered.set(answers)
    try:
        yield
    finally:
        _answered.reset(token)


@contextmanager
def together(entities: list[Entity]) -> Iterator[None]:
    token = _together.set(Together(entities))
    try:
        yield
    finally:
        _together.reset(token)


def once(question: Any, ask: Callable[[], T]) -> T:
    """The answer to a question that is the same for every entity of a batch."""
    batch = _together.get()
    if batch is None:
        return ask()
    if question not in batch.answers:
        batch.answers[question] = ask()
    return cast("T", batch.answers[question])


def alike(entity: Entity) -> list[str]:
    """The ids that a question about this entity is asked for: those of its batch, or its own."""
    batch = _together.get()
    return batch.ids if batch else [entity.pk]


def first_outside(entity: Entity, link: str, state: str) -> Linked | None:
    """A linked entity that is in another state; None when all are in this one."""
    return next(iter(_look(entity, link, "<>", state)), None)


def all_outside(entity: Entity, link: str, state: str) -> list[Linked]:
    return _look(entity, link, "<>", state)


def all_inside(entity: Entity, link: str, state: str) -> list[Linked]:
    return _look(entity, link, "=", state)


def question(model: type[Entity], link: str, compared: str, state: str) -> tuple[Any, ...]:
    """Which entities at the other end of a link are (`=`) or are not (`<>`) in a state; the answer is by id."""
    return (model, link, compared, str(state))


def _look(entity: Entity, link: str, compared: str, state: str) -> list[Linked]:
    model, ids = type(entity), alike(entity)
    found = once(question(model, link, compared, state), lambda: _ask(model, link, compared, state, ids))
    return found.get(entity.pk, [])


def _ask(model: type[Entity], link: str, compared: str, state: str, ids: list[str]) -> dict[str, list[Linked]]:
    found: dict[str, list[Linked]] = {}
    with connection.cursor() as cursor:
        query = _query(model, link, compared, connection.vendor, one=len(ids) == 1)
        cursor.execute(query, [listed(ids, connection.vendor), state])
        for pk, *other in cursor.fetchall():
            found.setdefault(pk, []).append(Linked(*other))
    return found


@cache
def _query(model: type[Entity], link: str, compared: str, vendor: str, *, one: bool) -> str:
    """The ORM would spend ten times as long on putting the same question together."""
    field = cast("Any", model._meta.get_field(link))
    target, through = field.related_model._meta.db_table, field.remote_field.through._meta.db_table
    own, other = field.m2m_column_name(), field.m2m_reverse_name()
    return (
        f"SELECT link.{own}, target.id, target.state, target.retry_of_id FROM {through} AS link "  # noqa: S608 - names
        f"JOIN {target} AS target ON target.id = link.{other} "
        f"WHERE link.{own} {among(vendor, 1 if one else 2)} AND target.state {compared} %s ORDER BY target.id"
    )
