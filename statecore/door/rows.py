"""Reading a row for a change: the query of each machine is compiled once, not once per move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
from django.core.exceptions import EmptyResultSet
from django.db import connection, models
from django.db.models.base import ModelState

from ..kernel.entity import Entity
from ..kernel.kept_cursor import ready_cursor
from ..kernel.many import among, listed
from ..kernel.refusals import NotFound
from ..kernel.ulid import is_valid_id
from .work import Work, current


class Reader:
    """SELECT … FOR UPDATE of one machine, with what turns a database row into an instance."""

    def __init__(self, model: type[Entity], vendor: str) -> None:
        fields = model._meta.concrete_fields
        self.model, self.names = model, [field.attname for field in fields]
        # In PostgreSQL's binary format every value arrives as Python wants it.
        self.converters = [] if vendor == "postgresql" else list(_converters(fields))
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in fields)
        lock = " FOR NO KEY UPDATE" if vendor == "postgresql" else ""
        self.table = table = quote(model._meta.db_table)
        self.one = f"SELECT {columns} FROM {table} WHERE id = %s{lock}"
        # Whoever has written a row is named in its xmin: another one means that it was touched.
        self.unlocked = f"SELECT {columns}, xmin::text FROM {table} WHERE id = %s"
        # In the order of the ids, so that two batches over the same rows cannot lock each other out.
        self.many = f"SELECT {columns} FROM {table} WHERE id {among(vendor, 2)} ORDER BY id{lock}"
        # For whoever chooses in SQL of their own, with `row` for the table.
        self.columns_of_row = ", ".join(f"row.{quote(str(field.column))}" for field in fields)

    def build(self, row: tuple[Any, ...]) -> Entity:
        """Without __init__: a row needs no defaults, no signals and no descriptors, which cost more than the row."""
        entity = self.model.__new__(self.model)
        entity.__dict__.update(zip(self.names, row, strict=True))
        for name, convert in self.converters:
            if (value := entity.__dict__[name]) is not None:
                entity.__dict__[name] = convert(value)
        entity._state = ModelState()
        entity._state.adding, entity._state.db = False, "default"
        return entity


def _converters(fields: Iterable[models.Field[Any, Any]]) -> Iterable[tuple[str, Callable[[Any], Any]]]:
    """What the driver leaves to do on SQLite; Django's own converters take several calls for each value."""
    for field in fields:
        if isinstance(field, models.JSONField):
            yield field.attname, orjson.loads
        elif isinstance(field, models.DateTimeField):
            yield field.attname, _moment


def _moment(naive: datetime) -> datetime:
    return naive.replace(tzinfo=UTC)


@cache
def _reader(model: type[Entity], vendor: str) -> Reader:
    return Reader(model, vendor)


def read(chosen: models.QuerySet[Any]) -> list[Any]:
    """The rows of a query of whole entities, as they are: Django's own way to instances takes three times as long."""
    try:
        query, params = chosen.query.sql_with_params()
    except EmptyResultSet:
        return []
    cursor = ready_cursor()
    cursor.execute(query, params)
    model: type[Entity] = chosen.model
    build = _reader(model, connection.vendor).build
    return [build(row) for row in cursor.fetchall()]


def lock(model: type[Entity], entity_id: str) -> Entity:
    work = current()
    if is_valid_id(entity_id):
        reader = _reader(model, work.connection.vendor)
        work.cursor.execute(reader.one, [entity_id])
        # To the end: on SQLite a statement that is not finished would keep the table locked.
        for entity in _built(reader, work):
            return entity
    raise _missing(model, entity_id)


def look(model: type[Entity], entity_id: str) -> tuple[Entity, str]:
    """The row without a lock, on PostgreSQL, and what tells whether it was touched since."""
    work = current()
    if is_valid_id(entity_id):
        reader = _reader(model, work.connection.vendor)
        work.cursor.execute(reader.unlocked, [entity_id])
        for *row, seen in work.cursor.fetchall():
            return reader.build(tuple(row)), seen
    raise _missing(model, entity_id)


def _missing(model: type[Entity], entity_id: str) -> NotFound:
    return NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")


def lock_many(model: type[Entity], entity_ids: list[str], *, skip_locked: bool = False) -> list[Entity]:
    work = current()
    reader = _reader(model, work.connection.vendor)
    wanted = [entity_id for entity_id in entity_ids if is_valid_id(entity_id)]
    vendor = work.connection.vendor
    skip = " SKIP LOCKED" if skip_locked and vendor == "postgresql" else ""  # SQLite has one writer at a time
    query = reader.one if len(wanted) == 1 else reader.many
    work.cursor.execute(query + skip, [listed(wanted, vendor)])
    return _built(reader, work)


def lock_in_turn(
    model: type[Entity], entity_ids: list[str], above: type[Entity], above_id: str, last: str = "0", params: Any = ()
) -> tuple[list[Any], Any, Any]:
    """Rows of one machine, then one of another, then what an expression locks, in one statement; all of them."""
    work = current()
    vendor = work.connection.vendor
    if not is_valid_id(above_id):
        raise _missing(above, above_id)
    wanted = [entity_id for entity_id in entity_ids if is_valid_id(entity_id)]
    statement = _in_turn(model, above, last, vendor, one=len(wanted) == 1)
    work.cursor.execute(statement, [listed(wanted, vendor), above_id, *params])
    found = work.cursor.fetchall()
    if not found:
        raise _missing(above, above_id)
    first, second = _reader(model, vendor), _reader(above, vendor)
    width = 1 + len(second.names)
    below = _known(first, work, [row[width:] for row in found if row[width] is not None])
    (entity,) = _known(second, work, [found[0][1:width]])
    return below, entity, found[0][0]


@cache
def _in_turn(model: type[Entity], above: type[Entity], last: str, vendor: str, *, one: bool) -> str:
    """Each waits for the one before it to be counted, which is when all its rows are locked."""
    first, second = _reader(model, vendor), _reader(above, vendor)
    lock = " FOR NO KEY UPDATE" if vendor == "postgresql" else ""
    return (
        f"WITH below AS MATERIALIZED (SELECT {first.columns_of_row} FROM {first.table} AS row "
        f"WHERE row.id {among(vendor, 1 if one else 2)} ORDER BY row.id{lock}), "
        f"above AS MATERIALIZED (SELECT {second.columns_of_row} FROM {second.table} AS row "
        f"WHERE row.id = %s AND (SELECT count(*) FROM below) >= 0{lock}) "
        f"SELECT CASE WHEN (SELECT count(*) FROM above) > 0 THEN {last} END, above.*, below.* "
        f"FROM above LEFT JOIN below ON true"
    )


def hold(model: type[Entity], entity_ids: Iterable[str]) -> set[str]:
    """Lock these without reading them, in the order of their ids; those that are there."""
    work = current()
    wanted, vendor = sorted(set(entity_ids)), work.connection.vendor
    if not wanted:
        return set()
    lock = " FOR NO KEY UPDATE" if vendor == "postgresql" else ""
    condition = f"WHERE id {among(vendor, len(wanted))} ORDER BY id{lock}"
    work.cursor.execute(f"SELECT id FROM {model._meta.db_table} {condition}", [listed(wanted, vendor)])
    found = {pk for (pk,) in work.cursor.fetchall()}
    work.held.update((model, pk) for pk in found)
    return found


def at_hand(model: type[Entity], entity_ids: Iterable[str], *, skip_locked: bool = False) -> list[Entity]:
    """The same for a cascade, which need not read again what its own transaction has locked and changed."""
    known = current().known
    found = {entity_id: known.get((model, entity_id)) for entity_id in entity_ids}
    missing = [entity_id for entity_id, entity in found.items() if entity is None]
    if missing:  # what this transaction has changed and not written is known, so none of these
        with current().reading_others():
            others = lock_many(model, missing, skip_locked=skip_locked)
    else:
        others = []
    return [entity for entity in found.values() if entity is not None] + others


def copied(entity: Entity) -> Any:
    """The entity as it is now, whatever becomes of it."""
    copy = object.__new__(type(entity))
    copy.__dict__.update(entity.__dict__)
    return copy


def latest(entity: Entity) -> Entity:
    """The entity as the current piece of work has left it."""
    return current().known.get((type(entity), entity.pk), entity)


def lock_chosen(model: type[Entity], condition: str, params: list[Any]) -> list[Entity]:
    """What a condition in SQL picks (the table is `row`), but for what somebody else has locked."""
    return [entity for entity, *_ in lock_chosen_with(model, "", condition, params)]


def lock_chosen_with(model: type[Entity], beside: str, condition: str, params: list[Any]) -> list[tuple[Any, ...]]:
    """The same, each followed by the values of further columns, such as `, (SELECT …)`."""
    work = current()
    reader = _reader(model, work.connection.vendor)
    skip = " FOR NO KEY UPDATE OF row SKIP LOCKED" if work.connection.vendor == "postgresql" else ""
    work.cursor.execute(f"SELECT {reader.columns_of_row}{beside} FROM {reader.table} AS row {condition}{skip}", params)
    found, own = work.cursor.fetchall(), len(reader.names)
    entities = _known(reader, work, [row[:own] for row in found])
    return [(entity, *row[own:]) for entity, row in zip(entities, found, strict=True)]


def _built(reader: Reader, work: Work) -> list[Entity]:
    return _known(reader, work, work.cursor.fetchall())


def _known(reader: Reader, work: Work, found: list[tuple[Any, ...]]) -> list[Entity]:
    entities = [reader.build(row) for row in found]
    work.known.update({(reader.model, entity.pk): entity for entity in entities})
    return entities
