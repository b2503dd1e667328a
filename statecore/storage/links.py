"""Queries about linked entities: for guards, with one query per batch, and for invariants, as subqueries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from django.db import connection
from django.db.models import IntegerField, Model, OuterRef, Q, Subquery
from django.db.models.lookups import Exact, GreaterThan, IsNull

from ..kernel.entity import Entity, Lookups
from ..kernel.fields import related
from .query_plans import without_index
from .sql_params import in_clause, in_param

T = TypeVar("T")


class Linked(NamedTuple):
    """The entity at the other end of a link."""

    id: str
    state: str
    retry_of: str | None


def share_lookups(entities: list[Any]) -> None:
    """Makes each lookup for one of these entities a lookup for all of them."""
    lookups = Lookups([entity.pk for entity in entities], {})
    for entity in entities:
        entity.lookups = lookups


def cached_for_batch(entity: Entity, key: Any, look_up: Callable[[list[str]], T]) -> T:
    """Returns the result of a lookup by the ids of the entities that share it, or by the entity's id alone."""
    if entity.lookups is None:
        return look_up([entity.pk])
    ids, results = entity.lookups
    if key not in results:
        results[key] = look_up(ids)
    return cast("T", results[key])


def first_outside(entity: Entity, link: str, state: str) -> Linked | None:
    """Returns a linked entity that is in another state; None if all are in this one."""
    return next(iter(_linked(entity, link, "<>", state)), None)


def all_outside(entity: Entity, link: str, state: str) -> list[Linked]:
    return _linked(entity, link, "<>", state)


def all_inside(entity: Entity, link: str, state: str) -> list[Linked]:
    return _linked(entity, link, "=", state)


def _linked(entity: Entity, link: str, operator: str, state: str) -> list[Linked]:
    model, state = type(entity), str(state)
    key = (model, link, operator, state)
    found = cached_for_batch(entity, key, lambda ids: _query_linked(model, link, operator, state, ids))
    return found.get(entity.pk, [])


def _query_linked(model: type[Entity], link: str, operator: str, state: str, ids: list[str]) -> dict[str, list[Linked]]:
    found: dict[str, list[Linked]] = {}
    with connection.cursor() as cursor:
        query = _linked_sql(model, link, operator, connection.vendor, one=len(ids) == 1)
        cursor.execute(query, [in_param(ids, connection.vendor), state])
        for pk, *other in cursor.fetchall():
            found.setdefault(pk, []).append(Linked(*other))
    return found


def read_links(model: type[Entity], ids: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Returns the ids of the linked entities, by the id of each given entity and by link."""
    fields: Any = model._meta.many_to_many
    found: dict[str, dict[str, list[str]]] = {pk: {field.name: [] for field in fields} for pk in ids}
    for field in fields:
        own, other = field.m2m_column_name(), field.m2m_reverse_name()
        links = field.remote_field.through.objects.filter(**{f"{own}__in": list(found)})
        for source, target in links.values_list(own, other):
            found[source][field.name].append(target)
    return found


@cache
def _linked_sql(model: type[Entity], link: str, operator: str, vendor: str, *, one: bool) -> str:
    """Written by hand because building the same query with the ORM takes ten times as long."""
    field = cast("Any", model._meta.get_field(link))
    target, through = field.related_model._meta.db_table, field.remote_field.through._meta.db_table
    own, other = field.m2m_column_name(), field.m2m_reverse_name()
    state = field.related_model.awaited_state.format(row="target")
    return (
        f"SELECT link.{own}, target.id, target.state, target.retry_of_id FROM {through} AS link "  # noqa: S608 - names
        f"JOIN {target} AS target ON target.id = link.{other} "
        f"WHERE link.{own} {in_clause(vendor, 1 if one else 2)} AND {state} {operator} %s ORDER BY target.id"
    )


class CountRows(Subquery):
    """The number of rows that a correlated query finds, with one index lookup for each outer row.

    With a join or EXISTS the database may read the whole other table, and does so while it has no statistics.
    """

    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()


def has_linked(model: type[Model], link: str, condition: Q) -> Q:
    """Whether an entity at the other end of a link meets a condition; each is looked up by its id."""
    field: Any = model._meta.get_field(link)
    targets = field.related_model.objects.filter(without_index(condition), pk=OuterRef(field.m2m_reverse_field_name()))
    links = field.remote_field.through.objects.filter(**{field.m2m_field_name(): OuterRef("pk")})
    return has_rows(links.filter(GreaterThan(CountRows(targets.values("pk")), 0)))


def has_rows(rows: Any) -> Q:
    """Whether a correlated query finds a row."""
    return Q(GreaterThan(CountRows(rows.values("pk")), 0))


def has_part(parts: Any) -> Q:
    """Whether a query for the parts of an entity finds one.

    The order is that of the index over open parts. Without it PostgreSQL chooses between that index and the one over
    all parts by its statistics.
    """
    return Q(IsNull(Subquery(parts.order_by("state_entered_at").values("pk")[:1]), rhs=False))


def related_column(model: type[Model], key: str, name: str) -> Subquery:
    """Returns a column of the row that a foreign key refers to."""
    target: Any = related(model, key)
    # There is one row at most; Django 6.1 requires a slice where the column is compared with a key.
    return Subquery(target.objects.filter(pk=OuterRef(f"{key}_id")).values(name)[:1])


def has_no_successor(model: type[Model]) -> Q:
    """Whether an entity was not retried; if it was, its successor counts instead."""
    successors: Any = model._default_manager.filter(retry_of=OuterRef("pk"))
    return Q(Exact(CountRows(successors.values("pk")), 0))
