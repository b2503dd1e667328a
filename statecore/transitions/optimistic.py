"""Optimistic transitions: without a transaction and without a lock, on PostgreSQL.

The row is read without a lock, checked, and written by one statement that matches only if no other transaction has
written the row since. This saves BEGIN, COMMIT and the lock: two of five round trips. It applies if guards,
method and reactions run no query: a query would need the row to stay unchanged until the write. The first query
raises NeedsTransaction before anything is written; the transition is repeated in a transaction, and its trigger is no
longer tried optimistically in this process. SQLite has one writer at a time and gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

from ..kernel import spans
from ..kernel.entity import Entity
from ..kernel.ids import is_valid_id
from ..storage.rows import ready_cursor
from . import write
from .entity_reader import not_found, reader_of
from .outcome import Outcome
from .unit_of_work import UnitOfWork, describe_on_span, is_transient, notify_committed

ChangeLoaded = Callable[[UnitOfWork, Entity], Outcome]  # changes an entity that was read without a lock


class NeedsTransaction(BaseException):
    """A query was run while the entity was checked. Not an Exception, so that no handler swallows it."""


# Triggers that are known to run queries, so that they are not attempted in vain each time.
_querying: set[tuple[type[Entity], str]] = set()


def attempt(model: type[Entity], entity_id: str, trigger: str, change: ChangeLoaded) -> Outcome | None:
    """Return the outcome; None if the transition needs a transaction, in which case nothing has been written."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor != "postgresql" or connection.in_atomic_block or (model, trigger) in _querying:
        return None
    work = UnitOfWork(connection, ready_cursor(connection))
    try:
        outcome = _change_unlocked(work, model, entity_id, change)
    except NeedsTransaction:
        _querying.add((model, trigger))
        return None
    except OperationalError as error:
        if not is_transient(error):
            raise
        return None
    if outcome is not None and outcome.entry is not None:
        if spans.tracer is not None:
            describe_on_span(work)
        notify_committed()
    return outcome


def _change_unlocked(work: UnitOfWork, model: type[Entity], entity_id: str, change: ChangeLoaded) -> Outcome | None:
    reader = reader_of(model, work.connection.vendor)
    found = work.query(reader.unlocked, [entity_id]) if is_valid_id(entity_id) else []
    if not found:
        raise not_found(model, entity_id)
    *row, xmin = found[0]
    with work.connection.execute_wrapper(_abort):
        outcome = change(work, reader.build(row))
    if len(work.pending) > 1:
        raise NeedsTransaction
    if not work.pending:
        return outcome
    written = write.update_if_unchanged(work.connection, work.cursor, work.pending[0], xmin)
    return outcome if written else None


def _abort(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    raise NeedsTransaction
