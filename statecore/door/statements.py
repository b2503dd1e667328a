"""The SQL that writes a row and its event, built once for each machine and set of columns."""

from __future__ import annotations

from functools import cache

from django.db import connection

from ..journal import COLUMNS, Event
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.gate import SETTING

EVENT_FIELDS = [column(Event, name) for name in COLUMNS]


@cache
def postgresql(model: type[Entity], columns: tuple[str, ...], *, many: bool, creating: bool) -> str:
    """Open the gate, write the row, write its event, shut the gate: one round trip, one plan.

    The gate is shut by the condition on the count, so after the last event and not after the first.
    """
    row = (_insert_given if creating else _update_given)(model, columns)
    names = ", ".join(str(field.column) for field in EVENT_FIELDS)
    values = ", ".join(f"given.e{i}" for i in range(len(EVENT_FIELDS)))
    return (
        f"WITH gate AS MATERIALIZED (SELECT set_config('{SETTING}', 'open', true) AS stands), "
        f"given AS ({_given(model, columns, many=many)}), written AS ({row}), "
        f"recorded AS (INSERT INTO {_events()} ({names}) "
        f"SELECT {values} FROM given JOIN written ON written.id = given.e2 RETURNING 1) "
        f"SELECT n FROM (SELECT count(*) AS n FROM recorded) AS counted "
        f"WHERE set_config('{SETTING}', CASE WHEN n >= 0 THEN 'shut' END, true) = 'shut'"
    )


def _given(model: type[Entity], columns: tuple[str, ...], *, many: bool) -> str:
    """The values of the row as r0, r1, … and of the event as e0, e1, …: one of each, or arrays of them."""
    types = [(f"r{i}", column(model, name).db_type(connection)) for i, name in enumerate(columns)]
    types += [(f"e{i}", field.db_type(connection)) for i, field in enumerate(EVENT_FIELDS)]
    if not many:
        return "SELECT " + ", ".join(f"%s::{type_} AS {name}" for name, type_ in types)
    arrays, names = ", ".join(f"%s::{type_}[]" for _, type_ in types), ", ".join(name for name, _ in types)
    return f"SELECT * FROM unnest({arrays}) AS arrays({names})"


def _insert_given(model: type[Entity], columns: tuple[str, ...]) -> str:
    values = ", ".join(f"given.r{i}" for i in range(len(columns)))
    return (
        f"INSERT INTO {_table(model)} ({', '.join(_names(model, columns))}) SELECT {values} "
        f"FROM gate, given WHERE gate.stands = 'open' RETURNING id"
    )


def _update_given(model: type[Entity], columns: tuple[str, ...]) -> str:
    """e2 is the entity's id and e3 its new version: a row that moved meanwhile is not written."""
    sets = ", ".join(f"{name} = given.r{i}" for i, name in enumerate(_names(model, columns)))
    return (
        f"UPDATE {_table(model)} AS t SET {sets} FROM gate, given "
        f"WHERE gate.stands = 'open' AND t.id = given.e2 AND t.version = given.e3 - 1 RETURNING t.id"
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
