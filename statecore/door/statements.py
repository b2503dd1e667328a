"""The SQL that writes a row and its event, built once for each machine and set of columns."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Field

from ..journal import COLUMNS, Entry, Event
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.latch import SETTING

EVENT_FIELDS = [column(Event, name) for name in COLUMNS]
# What a row repeats from its last event: on PostgreSQL these columns are not sent twice.
FROM_EVENT = {
    "state": "to_state",
    "version": "sequence",
    "chain_head": "hash",
    "updated_at": "timestamp",
    "state_entered_at": "timestamp",
}

# The last thing a statement does; by the condition on the count after the last event, not the first.
_SHUT = (
    "SELECT n FROM (SELECT count(*) AS n FROM recorded) AS counted "
    f"WHERE set_config('{SETTING}', CASE WHEN n >= 0 THEN 'shut' END, true) = 'shut'"
)


@cache
def postgresql(
    model: type[Entity], columns: tuple[str, ...], varying: frozenset[str] | None = None, *, creating: bool
) -> str:
    """Open the latch, write the row, write its event, shut the latch: one round trip, one plan.

    For one change every parameter is a value; for many, those named in `varying` are arrays and the rest, the same
    for all, are values.
    """
    row = (_insert_given if creating else _update_given)(model, columns)
    return _opening(row, _given(model, columns, varying))


@cache
def unless_touched(model: type[Entity], columns: tuple[str, ...]) -> str:
    """The same for a row that was read without a lock; the last parameter is the xmin it had."""
    row = _update_given(model, columns, " AND t.xmin = given.seen")
    return _opening(row, f"{_given(model, columns, None)}, %s::xid AS seen")


def _opening(row: str, given: str) -> str:
    names = [str(field.column) for field in EVENT_FIELDS]
    return (
        f"WITH latch AS MATERIALIZED (SELECT set_config('{SETTING}', 'open', true) AS stands), "
        f"given AS ({given}), written AS ({row}), "
        f"recorded AS (INSERT INTO {_events()} ({', '.join(names)}) "
        f"SELECT {', '.join(f'given.e_{name}' for name in names)} "
        f"FROM given JOIN written ON written.id = given.e_entity_id RETURNING 1) "
        f"{_SHUT}"
    )


# What an event takes from the declarations of its machine. Where a few events are written together these stand in the
# statement: the driver keeps what it knows about a statement only up to fifty parameters.
SHORT = {"varchar": "text", "character varying": "text", "timestamp with time zone": "timestamptz"}
DECLARED = ("entity_type", "kind", "trigger", "from_state", "to_state", "severity")
TOLD = tuple(COLUMNS.index(name) for name in COLUMNS if name not in DECLARED)
_DECLARED = tuple(COLUMNS.index(name) for name in DECLARED)


class Row(NamedTuple):
    """A row to be written: what has changed, and which of the events, by number, are its own."""

    model: type[Entity]
    columns: tuple[str, ...]
    events: tuple[int, ...]


def declared(entry: Entry) -> tuple[Any, ...]:
    return tuple([entry[index] for index in _DECLARED])


def told(entry: Entry) -> list[Any]:
    """The parameters of an event."""
    return [entry[index] for index in TOLD]


# Changes meet in few combinations, but nothing says how few.
@lru_cache(maxsize=1_000)
def together(rows: tuple[Row, ...], declarations: tuple[tuple[Any, ...], ...]) -> str:
    """The same for a few rows of different machines, each with one event or more.

    The parameters are what is told of the events, one after the other, then the columns of the rows. The events are
    written in their order: a cause before what it caused.
    """
    names = ", ".join(COLUMNS)
    events = ", ".join(f"({number}, {_given_event(given)})" for number, given in enumerate(declarations))
    updates = [f"row_{number} AS ({_update_once(row)})" for number, row in enumerate(rows)]
    owners = [f"SELECT {event} FROM row_{number}" for number, row in enumerate(rows) for event in row.events]
    return (
        f"WITH latch AS MATERIALIZED (SELECT set_config('{SETTING}', 'open', true) AS stands), "
        f"event (number, {names}) AS (VALUES {events}), {', '.join(updates)}, "
        f"recorded AS (INSERT INTO {_events()} ({names}) SELECT {names} FROM event "
        f"JOIN ({' UNION ALL '.join(owners)}) AS written (number) USING (number) ORDER BY number RETURNING 1) {_SHUT}"
    )


def _given_event(declaration: tuple[Any, ...]) -> str:
    literals = {name: f"'{value}'" for name, value in zip(DECLARED, declaration, strict=True)}
    return ", ".join(literals.get(field.name, f"%s::{_short_type(field)}") for field in EVENT_FIELDS)


def _short_type(field: Field[Any, Any]) -> str:
    """The driver keeps what it knows about a statement only up to 4,096 characters."""
    return SHORT.get(_type(field), _type(field))


def _update_once(row: Row) -> str:
    sets = [f"{name} = event.{source}" for name, source in FROM_EVENT.items()]
    types = [_short_type(column(row.model, name)) for name in row.columns]
    sets += [f"{name} = %s::{type_}" for name, type_ in zip(_names(row.model, row.columns), types, strict=True)]
    return (
        f"UPDATE {_table(row.model)} AS t SET {', '.join(sets)} FROM latch, event WHERE latch.stands = 'open' "
        f"AND event.number = {row.events[-1]} AND t.id = event.entity_id "
        f"AND t.version = event.sequence - {len(row.events)} RETURNING t.id"
    )


def sent(columns: tuple[str, ...], *, creating: bool) -> tuple[str, ...]:
    """The columns of the row that have a parameter of their own."""
    return columns if creating else tuple(name for name in columns if name not in FROM_EVENT)


def _given(model: type[Entity], columns: tuple[str, ...], varying: frozenset[str] | None) -> str:
    """The columns of the row as r_… and of the event as e_…, in the order of the parameters."""
    types = {f"r_{name}": _type(column(model, name)) for name in columns}
    types |= {f"e_{field.column}": _type(field) for field in EVENT_FIELDS}
    values = ", ".join(f"%s::{type_} AS {name}" for name, type_ in types.items() if name not in (varying or ()))
    if varying is None:
        return f"SELECT {values}"
    # Binary: as text, every quote in every event would be escaped one by one.
    arrays = {name: f"%b::{type_}[]" for name, type_ in types.items() if name in varying}
    unnested = f"unnest({', '.join(arrays.values())}) AS arrays({', '.join(arrays)})"
    return f"SELECT * FROM (SELECT {values}) AS same, {unnested}"


def _type(field: Field[Any, Any]) -> str:
    """Without a length: a cast to varchar(n) would cut silently what the column would refuse."""
    return str(field.db_type(connection)).partition("(")[0]


def _insert_given(model: type[Entity], columns: tuple[str, ...]) -> str:
    values = ", ".join(f"given.r_{name}" for name in columns)
    return (
        f"INSERT INTO {_table(model)} ({', '.join(_names(model, columns))}) SELECT {values} "
        f"FROM latch, given WHERE latch.stands = 'open' RETURNING id"
    )


def _update_given(model: type[Entity], columns: tuple[str, ...], also: str = "") -> str:
    """A row that moved since it was read is not written: its version is not the one before the event's."""
    sets = [f"{name} = given.e_{source}" for name, source in FROM_EVENT.items()]
    sets += [f"{_names(model, (name,))[0]} = given.r_{name}" for name in columns]
    return (
        f"UPDATE {_table(model)} AS t SET {', '.join(sets)} FROM latch, given WHERE latch.stands = 'open' "
        f"AND t.id = given.e_entity_id AND t.version = given.e_sequence - 1{also} RETURNING t.id"
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
