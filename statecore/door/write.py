"""Rows and events into the database, in one statement on PostgreSQL, behind the gate on both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from django.db import IntegrityError, connection

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
    many = len(changes) > 1
    rows = [[*_row_values(change, columns), *change.entry] for change in changes]
    values = [list(each) for each in zip(*rows, strict=True)] if many else rows[0]
    with connection.cursor() as cursor:
        cursor.execute(statements.postgresql(model, columns, many=many, creating=creating), values)
        return int(cursor.fetchone()[0])


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
