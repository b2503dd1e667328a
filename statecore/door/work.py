"""One piece of work at the door: one transaction, tried again after a deadlock, told to the world after the commit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import OperationalError, connection, transaction

from ..journal import Entry
from ..kernel import registry
from .change import Change

T = TypeVar("T")

ATTEMPTS = 8
SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE = "40001", "40P01", "55P03"
TRANSIENT = {SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE}


@dataclass(slots=True)
class Work:
    """What has happened so far in this transaction, in order."""

    entries: list[Entry] = field(default_factory=list)


_current: ContextVar[Work | None] = ContextVar("statecore_work", default=None)


def perform(step: Callable[[], T], *, keep: bool = True) -> T:
    """Run a step in a transaction of its own, or in the one it is called from.

    With `keep` false everything is rolled back at the end: a preview is the real thing.
    """
    if _current.get() is not None:
        if not keep:
            raise RuntimeError("a preview cannot be part of a change that is kept")
        return step()
    attempts = 1 if connection.in_atomic_block else ATTEMPTS
    for attempt in range(1, attempts + 1):
        try:
            return _once(step, keep=keep)
        except OperationalError as error:
            if attempt == attempts or not _is_transient(error):
                raise
            time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 - jitter, not a secret
    raise RuntimeError("perform() was given no attempt")


def _once(step: Callable[[], T], *, keep: bool) -> T:
    token = _current.set(Work())
    try:
        with transaction.atomic():
            result = step()
            if not keep:
                transaction.set_rollback(True)
            elif registry.listeners:
                transaction.on_commit(_tell_listeners)
        return result
    finally:
        _current.reset(token)


def _tell_listeners() -> None:
    for listener in registry.listeners:
        listener()


def _is_transient(error: OperationalError) -> bool:
    sqlstate: Any = getattr(error.__cause__, "sqlstate", None)
    return sqlstate in TRANSIENT or "database is locked" in str(error)


def done(change: Change) -> tuple[Entry, ...]:
    """Note a written change and let the reactions follow from it; the entries of the whole cascade below it."""
    work = _current.get()
    if work is None:
        raise RuntimeError("changes happen inside perform()")
    work.entries.append(change.entry)
    before = len(work.entries)
    for react in registry.reactions:
        react(change)
    return tuple(work.entries[before:])
