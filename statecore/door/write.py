"""Rows and events into the database, in one statement on PostgreSQL, behind the latch on both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain, islice
from typing import Any

from django.db import DatabaseError, DataError, IntegrityError, models

from ..journal import COLUMNS, Entry
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.latch import opened
from ..kernel.refusals import ConstraintViolated
from . import statements
from .change import Change
from .rows import copied
from .work import Work, current

PORTION = 200
MOST_TOGETHER = 6  # each combination of changes is a statement of its own, which the server prepares
Prepare = Callable[[Any, Any], Any]
Count = Callable[[], int]  # how many rows were written, once the database has answered
ADAPTED = {"postgresql": (models.JSONField,), "sqlite": (models.JSONField, models.DateTimeField)}


class LostRow(RuntimeError):
    """A locked row was not there to be written: the database broke its promise."""


def update(changes: Iterable[Change]) -> None:
    """A few changes wait for those that follow from them, to be written in one statement; many are written now."""
    work, coming = current(), iter(changes)
    few = list(islice(coming, MOST_TOGETHER + 1))
    if len(few) + len(work.unwritten) > MOST_TOGETHER:
        flush()
    if len(few) > MOST_TOGETHER:
        _write(chain(few, coming), creating=False)
    else:
        work.unwritten += map(_as_recorded, few)


def _as_recorded(change: Change) -> Change:
    """The entity itself may make its next move, or be on its way to it, before this one is written."""
    return change._replace(entity=copied(change.entity))


def insert(changes: Iterable[Change]) -> None:
    flush()
    _write(iter(changes), creating=True)


def flush() -> None:
    """Write what has not been written."""
    work = current()
    if work.unwritten:
        changes, work.unwritten = work.unwritten, []
        _write_together(work, changes)


def unless_touched(work: Work, seen: str) -> bool:
    """Write the one change there is if nobody has touched its row since it was read; whether it was written."""
    (change,), work.unwritten = work.unwritten, []
    columns = statements.sent(change.columns, creating=False)
    values = [*_row_values(work, change, columns), *change.entry, seen]
    try:
        work.cursor.execute(statements.unless_touched(type(change.entity), columns), values)
    except (IntegrityError, DataError) as error:
        raise _refused_by_the_database(error) from error
    return bool(work.cursor.fetchone()[0])


def before_it_is_read(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    """Around every statement of a piece of work: nobody reads a row that is yet to be written.

    Going back to a savepoint undoes what came after it, so also what is not written: making one has written the rest.
    """
    work = current()
    if sql.startswith("ROLLBACK TO"):
        work.unwritten.clear()
    elif not work.unaffected:
        flush()
    return execute(sql, params, many, context)


def _write_together(work: Work, changes: list[Change]) -> None:
    """Changes of different machines, each row written once however often it has moved."""
    own: dict[tuple[type[Entity], str], list[int]] = {}
    for number, change in enumerate(changes):
        own.setdefault((type(change.entity), change.entity.pk), []).append(number)
    rows = [statements.Row(model, _merged(changes, numbers), tuple(numbers)) for (model, _pk), numbers in own.items()]
    write = _together_on_postgresql if work.connection.vendor == "postgresql" else _together_on_sqlite
    try:
        _check(len(changes), write(work, rows, changes))
    except (IntegrityError, DataError) as error:
        raise _refused_by_the_database(error) from error


def _together_on_postgresql(work: Work, rows: list[statements.Row], changes: list[Change]) -> int:
    if len(changes) == 1:
        return _to_postgresql(work, work.cursor, changes[0].columns, changes, creating=False)()
    rows = [row._replace(columns=statements.sent(row.columns, creating=False)) for row in rows]
    values = [value for change in changes for value in statements.told(change.entry)]
    for row in rows:
        values += _row_values(work, changes[row.events[-1]], row.columns)
    declarations = tuple([statements.declared(change.entry) for change in changes])
    work.cursor.execute(statements.together(tuple(rows), declarations), values)
    return int(work.cursor.fetchone()[0])


def _together_on_sqlite(work: Work, rows: list[statements.Row], changes: list[Change]) -> int:
    """The rows first, then the events in their order: a cause before what it caused."""
    written = 0
    with opened(work.connection):
        for row in rows:
            last = changes[row.events[-1]]
            statement, of_events = statements.sqlite(row.model, row.columns, creating=False)
            where = [last.entry.entity_id, last.entry.sequence - len(row.events)]
            work.cursor.execute(statement, _row_values(work, last, row.columns) + where)
            written += work.cursor.rowcount * len(row.events)
        work.cursor.executemany(of_events, [_event_values(work, change.entry) for change in changes])
    return written


def _merged(changes: list[Change], numbers: list[int]) -> tuple[str, ...]:
    """The columns that any of these changes of one row has touched."""
    return tuple(dict.fromkeys(name for number in numbers for name in changes[number].columns))


def _check(wanted: int, written: int) -> None:
    if wanted != written:
        raise LostRow(f"{wanted - written} of {wanted} rows were not written")


def _write(changes: Iterator[Change], *, creating: bool) -> None:
    """A portion at a time: the server writes one while the next is being made."""
    work = current()
    portion = list(islice(changes, PORTION))
    try:
        # One portion alone has nothing to overlap with.
        with _pipeline(work) if len(portion) == PORTION else nullcontext():
            sent: list[tuple[int, Count]] = []
            while portion:
                for alike in _groups(portion):
                    # The kept cursor for one change; many need one each, for their answers are read at the end.
                    cursor = work.cursor if len(portion) == 1 else work.new_cursor()
                    sent.append((len(alike), _send(work, cursor, alike, creating=creating)))
                portion = list(islice(changes, PORTION))
            _check(sum(wanted for wanted, _count in sent), sum(count() for _wanted, count in sent))
    except (IntegrityError, DataError) as error:
        raise _refused_by_the_database(error) from error


def _groups(changes: list[Change]) -> Iterable[list[Change]]:
    """Changes that touch the same columns of the same machine go together."""
    groups: dict[tuple[str, tuple[str, ...]], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.entry.entity_type, change.columns), []).append(change)
    return groups.values()


def _pipeline(work: Work) -> AbstractContextManager[Any]:
    """In a pipeline PostgreSQL is not waited for until an answer is read."""
    return work.connection.connection.pipeline() if work.connection.vendor == "postgresql" else nullcontext()


def _send(work: Work, cursor: Any, changes: list[Change], *, creating: bool) -> Count:
    send = _to_postgresql if work.connection.vendor == "postgresql" else _to_sqlite
    return send(work, cursor, changes[0].columns, changes, creating=creating)


@cache
def _preparers(model: type[models.Model], columns: tuple[str, ...], vendor: str) -> list[tuple[str, Prepare | None]]:
    """How each column is told to the driver; most values are what it takes already."""
    fields = [column(model, name) for name in columns]
    return [(field.attname, field.get_db_prep_save if isinstance(field, ADAPTED[vendor]) else None) for field in fields]


def _row_values(work: Work, change: Change, columns: tuple[str, ...]) -> list[Any]:
    values, connection = change.entity.__dict__, work.connection
    return [
        prepare(values[name], connection) if prepare else values[name]
        for name, prepare in _preparers(type(change.entity), columns, connection.vendor)
    ]


def _to_postgresql(
    work: Work, cursor: Any, columns: tuple[str, ...], changes: list[Change], *, creating: bool
) -> Count:
    model, columns = type(changes[0].entity), statements.sent(columns, creating=creating)
    rows = [[*_row_values(work, change, columns), *change.entry] for change in changes]
    if len(rows) == 1:
        statement, values = statements.postgresql(model, columns, creating=creating), rows[0]
    else:
        varying, values = _columnwise([*(f"r_{name}" for name in columns), *_EVENT_NAMES], rows)
        statement = statements.postgresql(model, columns, varying, creating=creating)
    cursor.execute(statement, values)
    return lambda: int(cursor.fetchone()[0])


_TIMESTAMP = COLUMNS.index("timestamp")
_EVENT_NAMES = [f"e_{name}" for name in COLUMNS]
# Always sent as arrays: they differ between any two changes, so looking would be a waste.
_UNIQUE = {f"e_{name}" for name in ("event_id", "entity_id", "sequence", "prev_hash", "body", "hash")}


def _columnwise(names: list[str], rows: list[list[Any]]) -> tuple[frozenset[str], list[Any]]:
    """Which columns differ from row to row, and the parameters: first what is the same for all, then the arrays."""
    same, arrays, varying = [], [], []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if name not in _UNIQUE and values.count(values[0]) == len(values):
            same.append(values[0])
        else:
            varying.append(name)
            arrays.append(list(values))
    return frozenset(varying), same + arrays


def _to_sqlite(work: Work, cursor: Any, columns: tuple[str, ...], changes: list[Change], *, creating: bool) -> Count:
    row_statement, event_statement = statements.sqlite(type(changes[0].entity), columns, creating=creating)
    rows = []
    for change in changes:
        where = [] if creating else [change.entry.entity_id, change.entry.sequence - 1]
        rows.append(_row_values(work, change, columns) + where)
    events = [_event_values(work, change.entry) for change in changes]
    with opened(work.connection):
        cursor.executemany(row_statement, rows)
        written = cursor.rowcount
        cursor.executemany(event_statement, events)
    return lambda: int(written)


def _event_values(work: Work, entry: Entry) -> list[Any]:
    moment = work.connection.ops.adapt_datetimefield_value(entry.timestamp)
    return [*entry[:_TIMESTAMP], moment, *entry[_TIMESTAMP + 1 :]]


def _refused_by_the_database(error: DatabaseError) -> ConstraintViolated:
    sentence = str(error).splitlines()[0]
    diagnosis = getattr(error.__cause__, "diag", None)
    name = (diagnosis and diagnosis.constraint_name) or sentence.rpartition(": ")[2]
    return ConstraintViolated(f"the database refuses this row: {sentence}", constraint=name)
