"""Writes rows and their events: one statement on PostgreSQL, two on SQLite, inside the write guard on both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice
from typing import Any

from django.db import DatabaseError, DataError, IntegrityError, models
from django.db.backends.base.base import BaseDatabaseWrapper

from ..journal import COLUMNS, Entry
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.refusals import ConstraintViolated
from ..storage.rows import new_cursor
from ..storage.write_guard import allow_writes
from . import statements
from .change import Change

PORTION = 200  # changes per statement when many are written
Connection = BaseDatabaseWrapper
Prepare = Callable[[Any, Any], Any]
ReadCount = Callable[[], int]  # the number of rows written, read once the database has answered
ADAPTED = {"postgresql": (models.JSONField,), "sqlite": (models.JSONField, models.DateTimeField)}
_TIMESTAMP = COLUMNS.index("timestamp")
_EVENT_NAMES = [f"e_{name}" for name in COLUMNS]
# Always sent as arrays, because they differ between any two changes.
_UNIQUE = {f"e_{name}" for name in ("event_id", "entity_id", "sequence", "prev_hash", "body", "hash")}


class LostRow(RuntimeError):
    """A locked row did not exist when it was written."""

    def __init__(self, wanted: int, written: int) -> None:
        super().__init__(f"{wanted - written} of {wanted} rows were not written")


# A few changes of different machines


def update_combined(connection: Connection, cursor: Any, changes: list[Change]) -> None:
    """Write changes of different machines together; a row that changed several times is written once."""
    events_of: dict[tuple[type[Entity], str], list[int]] = {}
    for number, change in enumerate(changes):
        events_of.setdefault((type(change.entity), change.entity.pk), []).append(number)
    rows = []
    for (model, _pk), numbers in events_of.items():
        columns: dict[str, None] = {}
        for number in numbers:
            columns |= dict.fromkeys(changes[number].columns)
        rows.append(statements.Row(model, tuple(columns), tuple(numbers)))
    combine = _combine_on_postgresql if connection.vendor == "postgresql" else _combine_on_sqlite
    try:
        written = combine(connection, cursor, rows, changes)
    except (IntegrityError, DataError) as error:
        raise _constraint_violated(error) from error
    if written != len(changes):
        raise LostRow(len(changes), written)


def _combine_on_postgresql(
    connection: Connection, cursor: Any, rows: list[statements.Row], changes: list[Change]
) -> int:
    if len(changes) == 1:
        return _send_to_postgresql(connection, cursor, changes, creating=False)()
    rows = [row._replace(columns=statements.sent_columns(row.columns, creating=False)) for row in rows]
    values = [value for change in changes for value in statements.event_params(change.entry)]
    for row in rows:
        values += _row_values(connection, changes[row.events[-1]], row.columns)
    declarations = tuple([statements.declared_values(change.entry) for change in changes])
    cursor.execute(statements.combined(tuple(rows), declarations), values)
    return int(cursor.fetchone()[0])


def _combine_on_sqlite(connection: Connection, cursor: Any, rows: list[statements.Row], changes: list[Change]) -> int:
    """Rows first, then events in their order: causes before effects."""
    updates, insert_event = [], ""
    for row in rows:
        last = changes[row.events[-1]]
        update, insert_event = statements.sqlite(row.model, row.columns, creating=False)
        where = [last.entry.entity_id, last.entry.sequence - len(row.events)]
        updates.append((update, _row_values(connection, last, row.columns) + where, len(row.events)))
    events = [_event_values(connection, change.entry) for change in changes]
    written = 0
    with allow_writes(connection):
        for update, values, number_of_events in updates:
            cursor.execute(update, values)
            written += cursor.rowcount * number_of_events
        cursor.executemany(insert_event, events)
    return written


def update_if_unchanged(connection: Connection, cursor: Any, change: Change, xmin: str) -> bool:
    """Write one change if its row still has the xmin it was read with; return whether it was written."""
    columns = statements.sent_columns(change.columns, creating=False)
    values = _name_values(connection, change, columns)
    values["seen"] = xmin
    try:
        cursor.execute(statements.one(type(change.entity), columns, creating=False, if_unchanged=True), values)
    except (IntegrityError, DataError) as error:
        raise _constraint_violated(error) from error
    return bool(cursor.rowcount)


# Many changes


def update_many(connection: Connection, cursor: Any, changes: Iterable[Change]) -> None:
    _write_many(connection, cursor, iter(changes), creating=False)


def insert_many(connection: Connection, cursor: Any, changes: Iterable[Change]) -> None:
    _write_many(connection, cursor, iter(changes), creating=True)


def _write_many(connection: Connection, cursor: Any, changes: Iterator[Change], *, creating: bool) -> None:
    """Write portion by portion; on PostgreSQL the server writes one while the next is recorded and hashed."""
    send = _send_to_postgresql if connection.vendor == "postgresql" else _send_to_sqlite
    portion = list(islice(changes, PORTION))
    try:
        # A single portion has nothing to overlap with.
        with _pipeline(connection) if len(portion) == PORTION else nullcontext():
            sent: list[tuple[int, ReadCount]] = []
            while portion:
                for group in _group_by_columns(portion):
                    # A separate cursor for each of many statements, because their answers are read at the end.
                    own_cursor = cursor if len(portion) == 1 else new_cursor(connection)
                    sent.append((len(group), send(connection, own_cursor, group, creating=creating)))
                portion = list(islice(changes, PORTION))
        # The answers have arrived at the end of the pipeline.
        wanted, written = sum(wanted for wanted, _count in sent), sum(count() for _wanted, count in sent)
        if written != wanted:
            raise LostRow(wanted, written)
    except (IntegrityError, DataError) as error:
        raise _constraint_violated(error) from error


def _group_by_columns(changes: list[Change]) -> Iterable[list[Change]]:
    """Group the changes that touch the same columns of the same machine."""
    groups: dict[tuple[str, tuple[str, ...]], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.entry.entity_type, change.columns), []).append(change)
    return groups.values()


def _pipeline(connection: Connection) -> AbstractContextManager[Any]:
    """In a pipeline the driver sends statements without waiting for the answers to earlier ones."""
    return connection.connection.pipeline() if connection.vendor == "postgresql" else nullcontext()


def _send_to_postgresql(connection: Connection, cursor: Any, changes: list[Change], *, creating: bool) -> ReadCount:
    model = type(changes[0].entity)
    columns = statements.sent_columns(changes[0].columns, creating=creating)
    if len(changes) == 1:
        values = _name_values(connection, changes[0], columns)
        cursor.execute(statements.one(model, columns, creating=creating), values)
        return lambda: int(cursor.rowcount)
    rows = [[*_row_values(connection, change, columns), *change.entry] for change in changes]
    varying, arrays = _split_columns([*_row_names(columns), *_EVENT_NAMES], rows)
    cursor.execute(statements.many(model, columns, varying, creating=creating), arrays)
    return lambda: int(cursor.fetchone()[0])


def _name_values(connection: Connection, change: Change, columns: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(_EVENT_NAMES, change.entry, strict=True))
    values.update(zip(_row_names(columns), _row_values(connection, change, columns), strict=True))
    return values


@cache
def _row_names(columns: tuple[str, ...]) -> list[str]:
    return [f"r_{name}" for name in columns]


def _split_columns(names: list[str], rows: list[list[Any]]) -> tuple[frozenset[str], list[Any]]:
    """Return the names of the columns that vary, and the parameters: values shared by all rows, then arrays."""
    same, arrays, varying = [], [], []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if name not in _UNIQUE and values.count(values[0]) == len(values):
            same.append(values[0])
        else:
            varying.append(name)
            arrays.append(list(values))
    return frozenset(varying), same + arrays


def _send_to_sqlite(connection: Connection, cursor: Any, changes: list[Change], *, creating: bool) -> ReadCount:
    columns = changes[0].columns
    write_row, insert_event = statements.sqlite(type(changes[0].entity), columns, creating=creating)
    rows = []
    for change in changes:
        where = [] if creating else [change.entry.entity_id, change.entry.sequence - 1]
        rows.append(_row_values(connection, change, columns) + where)
    with allow_writes(connection):
        cursor.executemany(write_row, rows)
        written = cursor.rowcount
        cursor.executemany(insert_event, [_event_values(connection, change.entry) for change in changes])
    return lambda: int(written)


# Parameters and errors


@cache
def _preparers(model: type[models.Model], columns: tuple[str, ...], vendor: str) -> list[tuple[str, Prepare | None]]:
    """Return the attribute of each column, and a conversion for those the driver cannot take as they are."""
    fields = [column(model, name) for name in columns]
    return [(field.attname, field.get_db_prep_save if isinstance(field, ADAPTED[vendor]) else None) for field in fields]


def _row_values(connection: Connection, change: Change, columns: tuple[str, ...]) -> list[Any]:
    values = change.after
    return [
        prepare(values[name], connection) if prepare else values[name]
        for name, prepare in _preparers(type(change.entity), columns, connection.vendor)
    ]


def _event_values(connection: Connection, entry: Entry) -> list[Any]:
    at = connection.ops.adapt_datetimefield_value(entry.timestamp)
    return [*entry[:_TIMESTAMP], at, *entry[_TIMESTAMP + 1 :]]


def _constraint_violated(error: DatabaseError) -> ConstraintViolated:
    sentence = str(error).splitlines()[0]
    diagnosis = getattr(error.__cause__, "diag", None)
    name = (diagnosis and diagnosis.constraint_name) or sentence.rpartition(": ")[2]
    return ConstraintViolated(f"the database refuses this row: {sentence}", constraint=name)
