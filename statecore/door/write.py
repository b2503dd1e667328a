"""Rows and events into the database, in one statement on PostgreSQL, behind the gate on both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from django.db import IntegrityError, connection

from ..journal import COLUMNS
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.gate import opened
from ..kernel.refusals import ConstraintViolated
from . import statements
from .change import Change

Prepare = Callable[[Any, Any], Any]


class LostRow(RuntimeError):
    """A locked row was not there to be written: the database broke its promise."""


def update(changes: Sequence[Change]) -> None:
    _write(changes, creating=False)


def insert(changes: Sequence[Change]) -> None:
    _write(changes, creating=True)


def _write(changes: Sequence[Change], *, creating: bool) -> None:
    """Changes that touch the same columns of the same machine go together."""
    send = _to_postgresql if connection.vendor == "postgresql" else _to_sqlite
    for (_type, columns), group in groupby(sorted(changes, key=_shape), key=_shape):
        alike = list(group)
        try:
            written = send(type(alike[0].entity), columns, alike, creating=creating)
        except IntegrityError as error:
            raise _refused_by_the_database(error) from error
        if written != len(alike):
            raise LostRow(f"{len(alike) - written} of {len(alike)} rows were not written")


def _shape(change: Change) -> tuple[str, tuple[str, ...]]:
    return change.entry.entity_type, change.columns


@cache
def _preparers(model: type[Entity], columns: tuple[str, ...]) -> list[tuple[str, Prepare]]:
    return [(name, column(model, name).get_db_prep_save) for name in columns]


def _row_values(change: Change, columns: tuple[str, ...]) -> list[Any]:
    values = change.entity.__dict__
    return [prepare(values[name], connection) for name, prepare in _preparers(type(change.entity), columns)]


def _to_postgresql(model: type[Entity], columns: tuple[str, ...], changes: list[Change], *, creating: bool) -> int:
    columns = statements.sent(columns, creating=creating)
    rows = [[*_row_values(change, columns), *change.entry] for change in changes]
    if len(rows) == 1:
        statement, values = statements.postgresql(model, columns, creating=creating), rows[0]
    else:
        varying, values = _columnwise([*(f"r_{name}" for name in columns), *_EVENT_NAMES], rows)
        statement = statements.postgresql(model, columns, varying, creating=creating)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.fetchone()[0])


_EVENT_NAMES = [f"e_{name}" for name in COLUMNS]
# Always sent as arrays: they differ between any two changes, so looking would be a waste.
_UNIQUE = {f"e_{name}" for name in ("event_id", "entity_id", "sequence", "prev_hash", "body", "hash")}


def _columnwise(names: list[str], rows: list[list[Any]]) -> tuple[frozenset[str], list[Any]]:
    """Which columns differ from row to row, and the parameters: first what is the same for all, then the arrays."""
    same, arrays, varying = [], [], []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if name not in _UNIQUE and all(value == values[0] for value in values):
            same.append(values[0])
        else:
            varying.append(name)
            arrays.append(list(values))
    return frozenset(varying), same + arrays


def _to_sqlite(model: type[Entity], columns: tuple[str, ...], changes: list[Change], *, creating: bool) -> int:
    row_statement, event_statement = statements.sqlite(model, columns, creating=creating)
    rows, events = [], []
    for change in changes:
        where = [] if creating else [change.entry.entity_id, change.entry.sequence - 1]
        rows.append(_row_values(change, columns) + where)
        pairs = zip(statements.EVENT_FIELDS, change.entry, strict=True)
        events.append([field.get_db_prep_save(value, connection) for field, value in pairs])
    with connection.cursor() as cursor, opened(connection):
        cursor.executemany(row_statement, rows)
        written = cursor.rowcount
        cursor.executemany(event_statement, events)
    return int(written)


def _refused_by_the_database(error: IntegrityError) -> ConstraintViolated:
    sentence = str(error).splitlines()[0]
    diagnosis = getattr(error.__cause__, "diag", None)
    name = (diagnosis and diagnosis.constraint_name) or sentence.rpartition(": ")[2]
    return ConstraintViolated(f"the database refuses this row: {sentence}", constraint=name)
