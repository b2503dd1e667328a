"""Builds the SQL that writes a row and its event, once for each machine and set of columns."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Field

from ..journal import COLUMNS, Entry, Event, EventKind
from ..kernel.entity import Entity
from ..kernel.fields import column

EVENT_FIELDS = [column(Event, name) for name in COLUMNS]
# Columns that a row shares with its last event; on PostgreSQL their values are sent once.
FROM_EVENT = {
    "state": "to_state",
    "version": "sequence",
    "chain_head": "hash",
    "updated_at": "timestamp",
    "state_entered_at": "timestamp",
}

_COUNT = "SELECT count(*) FROM recorded"


@cache
def one(model: type[Entity], columns: tuple[str, ...], *, creating: bool, if_unchanged: bool = False) -> str:
    """Write a row and its event: one round trip, one plan. The triggers compare them at the end of the statement.

    The parameters are named, because a row shares some with its event. The statement counts the events that it has
    inserted. With `if_unchanged` the row was read without a lock, and must still have the xmin `seen`.
    """
    given = {f"e_{field.column}": f"%(e_{field.column})s::{_type(field)}" for field in EVENT_FIELDS}
    given |= {f"r_{name}": f"%(r_{name})s::{_type(column(model, name))}" for name in columns}
    if creating:
        values = ", ".join(given[f"r_{name}"] for name in columns)
        row = f"INSERT INTO {_table(model)} ({', '.join(_names(model, columns))}) VALUES ({values})"
    else:
        row = _update_one(model, columns, given) + (" AND t.xmin = %(seen)s::xid" if if_unchanged else "")
    names = [str(field.column) for field in EVENT_FIELDS]
    return (
        f"WITH written AS ({row} RETURNING 1) INSERT INTO {_events()} ({', '.join(names)}) "
        f"SELECT {', '.join(given[f'e_{name}'] for name in names)} FROM written"
    )


@cache
def many(model: type[Entity], columns: tuple[str, ...], varying: frozenset[str], *, creating: bool) -> str:
    """Write rows and their events; the parameters in `varying` are arrays, the others values that all rows share."""
    row = (_insert_given if creating else _update_given)(model, columns)
    names = [str(field.column) for field in EVENT_FIELDS]
    return (
        f"WITH given AS ({_given(model, columns, varying)}), written AS ({row}), "
        f"recorded AS (INSERT INTO {_events()} ({', '.join(names)}) "
        f"SELECT {', '.join(f'given.e_{name}' for name in names)} "
        f"FROM given JOIN written ON written.id = given.e_entity_id RETURNING 1) "
        f"{_COUNT}"
    )


# Values that come from the declaration of a machine. When a few events are written together they are literals of the
# statement, because the driver caches what it knows about a statement only up to fifty parameters.
SHORT = {"varchar": "text", "character varying": "text", "timestamp with time zone": "timestamptz"}
DECLARED = ("entity_type", "kind", "trigger", "from_state", "to_state", "severity")
_SENT = tuple(COLUMNS.index(name) for name in COLUMNS if name not in DECLARED)
_DECLARED = tuple(COLUMNS.index(name) for name in DECLARED)


class Row(NamedTuple):
    """A row to write: its changed columns, and the numbers of its events."""

    model: type[Entity]
    columns: tuple[str, ...]
    events: tuple[int, ...]


def declared_values(entry: Entry) -> tuple[Any, ...]:
    return tuple([entry[index] for index in _DECLARED])


def event_params(entry: Entry) -> list[Any]:
    return [entry[index] for index in _SENT]


# Changes occur in few combinations, but their number has no fixed bound.
@lru_cache(maxsize=1_000)
def combined(rows: tuple[Row, ...], declarations: tuple[tuple[Any, ...], ...]) -> str:
    """Write a few rows of different machines, each with one event or more.

    The parameters are those of the events, one after the other, then the columns of the rows. Events are written in
    their order: causes before effects.
    """
    names = ", ".join(COLUMNS)
    events = ", ".join(f"({number}, {_given_event(given)})" for number, given in enumerate(declarations))
    updates = [f"row_{number} AS ({_update_once(row)})" for number, row in enumerate(rows)]
    owners = [f"SELECT {event} FROM row_{number}" for number, row in enumerate(rows) for event in row.events]
    return (
        f"WITH event (number, {names}) AS (VALUES {events}), {', '.join(updates)}, "
        f"recorded AS (INSERT INTO {_events()} ({names}) SELECT {names} FROM event "
        f"JOIN ({' UNION ALL '.join(owners)}) AS written (number) USING (number) ORDER BY number RETURNING 1) "
        f"{_COUNT}"
    )


def _given_event(declaration: tuple[Any, ...]) -> str:
    literals = {name: f"'{value}'" for name, value in zip(DECLARED, declaration, strict=True)}
    return ", ".join(literals.get(field.name, f"%s::{_short_type(field)}") for field in EVENT_FIELDS)


def _short_type(field: Field[Any, Any]) -> str:
    """Short names, because the driver caches what it knows about a statement only up to 4,096 characters."""
    return SHORT.get(_type(field), _type(field))


def _update_once(row: Row) -> str:
    sets = [_from_event(name, f"event.{source}", "event.kind") for name, source in FROM_EVENT.items()]
    types = [_short_type(column(row.model, name)) for name in row.columns]
    sets += [f"{name} = %s::{type_}" for name, type_ in zip(_names(row.model, row.columns), types, strict=True)]
    return (
        f"UPDATE {_table(row.model)} AS t SET {', '.join(sets)} FROM event "
        f"WHERE event.number = {row.events[-1]} AND t.id = event.entity_id "
        f"AND t.version = event.sequence - {len(row.events)} RETURNING t.id"
    )


def _from_event(name: str, value: str, kind: str) -> str:
    """An edit keeps the time at which the state was entered."""
    if name != "state_entered_at":
        return f"{name} = {value}"
    return f"{name} = CASE {kind} WHEN '{EventKind.EDITED.value}' THEN t.{name} ELSE {value} END"


def sent_columns(columns: tuple[str, ...], *, creating: bool) -> tuple[str, ...]:
    """Return the columns of the row that have a parameter."""
    return columns if creating else tuple(name for name in columns if name not in FROM_EVENT)


def _given(model: type[Entity], columns: tuple[str, ...], varying: frozenset[str]) -> str:
    """Select the columns of the row as r_… and of the event as e_…, in the order of the parameters."""
    types = {f"r_{name}": _type(column(model, name)) for name in columns}
    types |= {f"e_{field.column}": _type(field) for field in EVENT_FIELDS}
    values = ", ".join(f"%s::{type_} AS {name}" for name, type_ in types.items() if name not in varying)
    # Binary, because in text arrays every quote of every event is escaped.
    arrays = {name: f"%b::{type_}[]" for name, type_ in types.items() if name in varying}
    unnested = f"unnest({', '.join(arrays.values())}) AS arrays({', '.join(arrays)})"
    return f"SELECT * FROM (SELECT {values}) AS same, {unnested}"


def _type(field: Field[Any, Any]) -> str:
    """Without a length: a cast to varchar(n) would silently truncate a value that the column refuses."""
    return str(field.db_type(connection)).partition("(")[0]


def _insert_given(model: type[Entity], columns: tuple[str, ...]) -> str:
    values = ", ".join(f"given.r_{name}" for name in columns)
    return f"INSERT INTO {_table(model)} ({', '.join(_names(model, columns))}) SELECT {values} FROM given RETURNING id"


def _update_given(model: type[Entity], columns: tuple[str, ...]) -> str:
    given = {f"e_{name}": f"given.e_{name}" for name in COLUMNS} | {f"r_{name}": f"given.r_{name}" for name in columns}
    return f"{_update_one(model, columns, given, ' FROM given')} RETURNING t.id"


def _update_one(model: type[Entity], columns: tuple[str, ...], given: dict[str, str], source: str = "") -> str:
    """A row that has changed since it was read does not match, because its version has increased."""
    sets = [_from_event(name, given[f"e_{event}"], given["e_kind"]) for name, event in FROM_EVENT.items()]
    sets += [f"{_names(model, (name,))[0]} = {given[f'r_{name}']}" for name in columns]
    return (
        f"UPDATE {_table(model)} AS t SET {', '.join(sets)}{source} "
        f"WHERE t.id = {given['e_entity_id']} AND t.version = {given['e_sequence']} - 1"
    )


@cache
def sqlite(model: type[Entity], columns: tuple[str, ...], *, creating: bool) -> tuple[str, str]:
    names = _names(model, columns)
    if creating:
        row = f"INSERT INTO {_table(model)} ({', '.join(names)}) VALUES ({_marks(len(names))})"
    else:
        sets = ", ".join(f"{name} = %s" for name in names)
        row = f"UPDATE {_table(model)} SET {sets} WHERE id = %s AND version = %s"
    event_names = ", ".join(str(field.column) for field in EVENT_FIELDS)
    return row, f"INSERT INTO {_events()} ({event_names}) VALUES ({_marks(len(EVENT_FIELDS))})"


def _marks(count: int) -> str:
    return ", ".join(["%s"] * count)


def _table(model: type[Entity]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _events() -> str:
    return connection.ops.quote_name(Event._meta.db_table)


def _names(model: type[Entity], columns: tuple[str, ...]) -> list[str]:
    return [connection.ops.quote_name(str(column(model, name).column)) for name in columns]
