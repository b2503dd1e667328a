"""Locking upwards: from a task to its workstream, from a workstream to its run; never the other way round."""

from __future__ import annotations

from collections.abc import Iterable

from ..door.work import current
from ..kernel.entity import Entity
from ..kernel.many import among, listed


def take(model: type[Entity], ids: Iterable[str]) -> None:
    """In the order of the ids. SQLite has one writer at a time, who holds every lock there is."""
    work = current()
    if work.connection.vendor != "postgresql":
        return
    # Rows that were locked to be changed are held as well.
    wanted = sorted(pk for pk in set(ids) if (model, pk) not in work.held and (model, pk) not in work.known)
    if wanted:
        table = model._meta.db_table
        among_them = among("postgresql", len(wanted))
        with work.reading_others():
            work.cursor.execute(
                f"SELECT id FROM {table} WHERE id {among_them} ORDER BY id FOR NO KEY UPDATE",
                [listed(wanted, "postgresql")],
            )
            work.cursor.fetchall()
        work.held.update((model, pk) for pk in wanted)
