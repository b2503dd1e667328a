"""Locking upwards: from a task to its gates, its workstream, its run; never the other way round."""

from __future__ import annotations

from collections.abc import Iterable

from ..door.work import current
from ..kernel.entity import Entity
from ..kernel.many import among, listed
from ..machines.run import Run
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream

# What is not named here, such as a task, is below them all.
UPWARDS: dict[type[Entity], int] = {TestGate: 1, Workstream: 2, Run: 3}


def take(model: type[Entity], ids: Iterable[str]) -> set[str]:
    """In the order of the ids; those that somebody else has, where waiting for them might be waiting in a circle.

    Who holds one of the same kind, or one above, does not wait: two that depend on each other's tasks would meet.
    SQLite has one writer at a time, who holds every lock there is.
    """
    work = current()
    if work.connection.vendor != "postgresql":
        return set()
    # Rows that were locked to be changed are held as well.
    wanted = sorted(pk for pk in set(ids) if (model, pk) not in work.held and (model, pk) not in work.known)
    if not wanted:
        return set()
    may_wait = all(UPWARDS.get(kind, 0) < UPWARDS[model] for kind, _pk in (*work.held, *work.known))
    table, among_them = model._meta.db_table, among("postgresql", len(wanted))
    with work.reading_others():
        work.cursor.execute(
            f"SELECT id FROM {table} WHERE id {among_them} ORDER BY id FOR NO KEY UPDATE"
            f"{'' if may_wait else ' SKIP LOCKED'}",
            [listed(wanted, "postgresql")],
        )
        taken = {pk for (pk,) in work.cursor.fetchall()}
    work.held.update((model, pk) for pk in taken)
    return set() if may_wait else set(wanted) - taken
