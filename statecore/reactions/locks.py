"""Locks are taken upwards: from a task to its gates, its workstream and its run, never the other way round."""

from __future__ import annotations

from collections.abc import Iterable

from ..kernel.entity import Entity
from ..machines.run import Run
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from ..storage.sql_params import in_clause, in_param
from ..transitions.unit_of_work import UnitOfWork

# The order of locks; models that are not listed, such as tasks, come first.
LEVELS: dict[type[Entity], int] = {TestGate: 1, Workstream: 2, Run: 3}
# Beside its row lock, a workstream has an advisory lock that unobserved completions share. (PostgreSQL also has shared
# row locks, but new sharers overtake a transaction that waits for the exclusive lock: it would starve.)
ADVISORY_KEY = "hashtextextended({}, 8)"


def take(work: UnitOfWork, model: type[Entity], ids: Iterable[str]) -> set[str]:
    """Lock these rows by id: wait if that cannot deadlock, otherwise skip rows locked elsewhere and return their ids.

    SQLite has a single writer, which needs no locks.
    """
    if work.connection.vendor != "postgresql":
        return set()
    known = work.locked, work.entities
    wanted = sorted(pk for pk in set(ids) if not any((model, pk) in keys for keys in known))
    if not wanted:
        return set()
    waits = may_wait(work, model)
    free = _take_advisory(work, wanted, waits=waits) if model is Workstream else wanted
    taken = _take_rows(work, model, free, waits=waits) if free else set()
    work.locked.update((model, pk) for pk in taken)
    return set() if waits else set(wanted) - taken


def may_wait(work: UnitOfWork, model: type[Entity]) -> bool:
    """Whether no lock of the same level or above is held: otherwise two transactions could wait for each other."""
    held = (*work.locked, *work.shared, *work.entities)
    return all(LEVELS.get(kind, 0) < LEVELS[model] for kind, _pk in held)


def _take_advisory(work: UnitOfWork, ids: list[str], *, waits: bool) -> list[str]:
    """Take the advisory locks exclusively; return the ids of those that were free."""
    key = ADVISORY_KEY.format("id")
    if waits:
        lock = f"SELECT pg_advisory_xact_lock({key}) FROM unnest(%s::text[]) AS id"
        work.query(lock, [ids], flush=False)
        return ids
    try_lock = f"SELECT id FROM unnest(%s::text[]) AS id WHERE pg_try_advisory_xact_lock({key})"
    return [pk for (pk,) in work.query(try_lock, [ids], flush=False)]


def _take_rows(work: UnitOfWork, model: type[Entity], ids: list[str], *, waits: bool) -> set[str]:
    query = (
        f"SELECT id FROM {model._meta.db_table} WHERE id {in_clause('postgresql', len(ids))} "
        f"ORDER BY id FOR NO KEY UPDATE{'' if waits else ' SKIP LOCKED'}"
    )
    return {pk for (pk,) in work.query(query, [in_param(ids, "postgresql")], flush=False)}
