"""Doing a piece of work: one transaction, tried again after a deadlock, told to the world after the commit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..journal import Entry
from ..kernel import registry
from ..kernel.kept_cursor import kept_cursor
from . import write
from .change import Change
from .work import Work, current, running

T = TypeVar("T")

ATTEMPTS = 8
SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE = "40001", "40P01", "55P03"
TRANSIENT = {SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE}


def perform(step: Callable[[], T], *, keep: bool = True) -> T:
    """Run a step in a transaction of its own, or in the one it is called from.

    With `keep` false everything is rolled back at the end: a preview is the real thing.
    """
    if running.get() is not None:
        return _nested(step, keep=keep)
    connection = connections[DEFAULT_DB_ALIAS]
    attempts = 1 if connection.in_atomic_block else ATTEMPTS
    for attempt in range(1, attempts):
        try:
            return _once(step, connection, keep=keep)
        except OperationalError as error:
            if not is_transient(error):
                raise
            time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 - jitter, not a secret
    return _once(step, connection, keep=keep)


def _nested(step: Callable[[], T], *, keep: bool) -> T:
    """What a reaction asks for: undone as a whole when it is refused, though the reaction may go on."""
    work = current()
    before, held, shared = len(work.entries), set(work.held), set(work.shared)
    kept = False
    try:
        with transaction.atomic():
            result = step()
            write.flush()
            if not keep:
                transaction.set_rollback(True)
        kept = keep
    finally:
        if not kept:  # what was locked and changed since is let go with the savepoint
            del work.entries[before:]
            work.held, work.shared = held, shared
            work.known.clear()
            work.standings.clear()
            work.quiet, work.unnoticed = set(), set()
    return result


def _once(step: Callable[[], T], connection: BaseDatabaseWrapper, *, keep: bool) -> T:
    with transaction.atomic():
        work = Work(connection, kept_cursor(connection))
        token = running.set(work)
        try:
            with connection.execute_wrapper(write.before_it_is_read):
                result = step()
                write.flush()
        finally:
            running.reset(token)
        if not keep:
            transaction.set_rollback(True)
        # Robust: a listener that fails must not make a change that is committed look as if it were not.
        for listener in registry.listeners if keep else ():
            transaction.on_commit(listener, robust=True)
    return result


def is_transient(error: OperationalError) -> bool:
    sqlstate: Any = getattr(error.__cause__, "sqlstate", None)
    return sqlstate in TRANSIENT or "database is locked" in str(error)


def react_to(changes: list[Change]) -> tuple[Entry, ...]:
    """Note written changes and let the reactions follow from them; the entries of the whole cascade below them."""
    work = current()
    work.entries += [change.entry for change in changes]
    before = len(work.entries)
    if changes:
        for react in registry.reactions:
            react(changes)
    return tuple(work.entries[before:])
