"""One piece of work at the door: what it holds, what it knows, and what it has yet to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..journal import Entry
from ..kernel.entity import Entity
from ..kernel.kept_cursor import new_cursor
from .change import Change


@dataclass(slots=True)
class Work:
    """One transaction: the cursor everything goes through, and what has happened so far, in order."""

    connection: BaseDatabaseWrapper
    cursor: Any
    entries: list[Entry] = field(default_factory=list)
    # The rows this transaction has locked without reading them.
    held: set[tuple[type[Entity], str]] = field(default_factory=set)
    # Those of which it holds a lock that others may hold as well.
    shared: set[tuple[type[Entity], str]] = field(default_factory=set)
    # The rows it has locked, as they are now: nobody else can change them until it ends.
    known: dict[tuple[type[Entity], str], Entity] = field(default_factory=dict)
    # Changes that are written together, before the next statement that might see them (write.py).
    unwritten: list[Change] = field(default_factory=list)
    # Whether the statement that is run now would read the same once they are written.
    unaffected: bool = False
    # The states of workstreams and their runs that were read along with their tasks, for those who would ask next.
    standings: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Entities of which it was found, under the locks it holds, that nothing will follow when they change.
    quiet: set[str] = field(default_factory=set)
    # Entities that are about to change without anything following from it, as somebody has made sure of.
    unnoticed: set[str] = field(default_factory=set)

    @contextmanager
    def reading_others(self) -> Iterator[None]:
        """For statements that what is unwritten makes no difference to."""
        before, self.unaffected = self.unaffected, True
        try:
            yield
        finally:
            self.unaffected = before

    def new_cursor(self) -> Any:
        return new_cursor(self.connection)


running: ContextVar[Work | None] = ContextVar("statecore_work", default=None)


def current() -> Work:
    work = running.get()
    if work is None:
        raise RuntimeError("this happens inside perform()")
    return work
