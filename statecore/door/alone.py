"""A move that asks for nothing but its own row needs no transaction around it, and no lock.

The row is read, judged, and written by one statement if nobody has touched it since. Where a guard, the move itself or
a reaction asks the database anything, the row must stand still meanwhile: then everything is done again, from the
lock on. PostgreSQL alone: on SQLite whoever writes has the database to himself from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction

from ..kernel import registry
from ..kernel.entity import Entity
from ..kernel.kept_cursor import ready_cursor
from . import rows, write
from .outcome import Outcome
from .perform import is_transient
from .work import Work, running

Judge = Callable[[Entity], Outcome]


class NeedsTheLock(BaseException):
    """Something is asked while the row is judged. Not an Exception: who asks must not take it for an answer."""


# The moves that are known to ask, so that they are not tried in vain each time.
_asking: set[tuple[type[Entity], str]] = set()


def move(model: type[Entity], entity_id: str, trigger: str, judge: Judge) -> Outcome | None:
    """What came of it; None where it takes a transaction, and nothing has happened yet."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor != "postgresql" or connection.in_atomic_block or running.get() is not None:
        return None
    if (model, trigger) in _asking:
        return None
    try:
        outcome = _moved(Work(connection, ready_cursor()), model, entity_id, judge)
    except NeedsTheLock:
        _asking.add((model, trigger))
        return None
    except OperationalError as error:
        if not is_transient(error):
            raise
        return None
    if outcome is not None and outcome.entry is not None:
        for listener in registry.listeners:
            transaction.on_commit(listener, robust=True)
    return outcome


def _moved(work: Work, model: type[Entity], entity_id: str, judge: Judge) -> Outcome | None:
    token = running.set(work)
    try:
        entity, seen = rows.look(model, entity_id)
        with work.connection.execute_wrapper(_refuse):
            outcome = judge(entity)
        if len(work.unwritten) > 1:
            raise NeedsTheLock
        return outcome if not work.unwritten or write.unless_touched(work, seen) else None
    finally:
        running.reset(token)


def _refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    raise NeedsTheLock
