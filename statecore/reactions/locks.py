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
# A workstream has a lock beside that of its row, which those share who complete unnoticed. (Rows can be locked for
# sharing as well, but who shares goes past whoever waits to have one alone: he would wait as long as tasks complete.)
QUIET_LOCK = "hashtextextended({}, 8)"


def take(model: type[Entity], ids: Iterable[str]) -> set[str]:
    """In the order of the ids; those that somebody else has, where waiting for them might be waiting in a circle.

    SQLite has one writer at a time, who holds every lock there is.
    """
    work = current()
    if work.connection.vendor != "postgresql":
        return set()
    # Rows that were locked to be changed are held as well.
    wanted = sorted(pk for pk in set(ids) if (model, pk) not in work.held and (model, pk) not in work.known)
    if not wanted:
        return set()
    waits = may_wait(model)
    with work.reading_others():
        free = _undisturbed(wanted, waits=waits) if model is Workstream else wanted
        taken = _locked(model, free, waits=waits) if free else set()
    work.held.update((model, pk) for pk in taken)
    return set() if waits else set(wanted) - taken


def may_wait(model: type[Entity]) -> bool:
    """Not who holds one of the same kind, or one above: two that depend on each other's tasks would meet."""
    work = current()
    return all(UPWARDS.get(kind, 0) < UPWARDS[model] for kind, _pk in (*work.held, *work.shared, *work.known))


def _undisturbed(ids: list[str], *, waits: bool) -> list[str]:
    """Those of which nobody shares the quiet lock now, nor will."""
    cursor, key = current().cursor, QUIET_LOCK.format("id")
    if waits:
        cursor.execute(f"SELECT pg_advisory_xact_lock({key}) FROM unnest(%s::text[]) AS id", [ids])
        return ids
    cursor.execute(f"SELECT id FROM unnest(%s::text[]) AS id WHERE pg_try_advisory_xact_lock({key})", [ids])
    return [pk for (pk,) in cursor.fetchall()]


def _locked(model: type[Entity], ids: list[str], *, waits: bool) -> set[str]:
    cursor = current().cursor
    cursor.execute(
        f"SELECT id FROM {model._meta.db_table} WHERE id {among('postgresql', len(ids))} "
        f"ORDER BY id FOR NO KEY UPDATE{'' if waits else ' SKIP LOCKED'}",
        [listed(ids, "postgresql")],
    )
    return {pk for (pk,) in cursor.fetchall()}
