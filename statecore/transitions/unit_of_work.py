"""The unit of work: one transaction, the rows it has locked, and the changes it has yet to write."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar, cast

import structlog
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..journal import Entry
from ..kernel import registry, spans
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.entity import Entity
from ..kernel.ids import is_valid_id
from ..storage import database_clock
from ..storage.rows import persistent_cursor
from ..storage.sql_params import in_clause, in_param
from . import write
from .change import Change
from .entity_reader import EntityReader, not_found, reader_of
from .idempotency import KeyInUse, RequestKey, answer_once

log = structlog.get_logger(__name__)

T = TypeVar("T")
Key = tuple[type[Any], str]

SPAN = "transition service"
ATTEMPTS = 8
RETRIED_SECONDS = 10.0
SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE = "40001", "40P01", "55P03"
TRANSIENT = {SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE}


class RowsLocked(OperationalError):
    """Rows that the whole step needs are locked elsewhere: it is repeated."""

    sqlstate = LOCK_NOT_AVAILABLE


MAX_COMBINED = 6  # changes per statement; PostgreSQL prepares one statement for each combination of changes


@dataclass(slots=True)
class UnitOfWork:
    """One transaction of the transition service; every function that takes part in it receives it as an argument.

    Changes are staged and written together by `flush`, so that a transition and its reactions take one statement. Every
    read that could see a staged change must flush first: `query` does so by default, and code that uses the ORM calls
    `flush` itself.
    """

    connection: BaseDatabaseWrapper
    cursor: Any
    # The events recorded so far, causes before effects.
    entries: list[Entry] = field(default_factory=list)
    # Rows locked and read, as this transaction has left them.
    entities: dict[Key, Entity] = field(default_factory=dict)
    # Rows locked without being read.
    locked: set[Key] = field(default_factory=set)
    # Workstreams with an advisory lock that this transaction shares (reactions/unobserved_completion.py).
    shared: set[Key] = field(default_factory=set)
    # Changes that are recorded and not yet written.
    pending: list[Change] = field(default_factory=list)
    # States of workstreams and their runs that a claim has read along with its tasks.
    parent_states: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Tasks found to have no dependents, under the shared locks of their workstreams.
    unobserved: set[str] = field(default_factory=set)
    # Tasks and gates whose tools permit them to start (reactions/tools.py).
    admitted: set[Key] = field(default_factory=set)
    # Tasks that a claim starts, for which their runs have room (reactions/run_queues.py).
    claimed: set[str] = field(default_factory=set)
    # Tasks that are completing and known to need no reaction.
    completing: set[str] = field(default_factory=set)
    # Whether reactions wait for the commit, so that the events recorded so far are not the whole cascade.
    has_postponed: bool = False
    # Whether an error in any step fails the whole transaction, so that steps need no savepoints.
    is_one_step: bool = False

    def query(self, sql: str, params: Iterable[Any] = (), *, flush: bool = True) -> list[Any]:
        """Run a statement and return all its rows; `flush=False` if staged changes cannot affect its result."""
        if flush and self.pending:
            self.flush()
        self.cursor.execute(sql, params)
        # All of them: on SQLite an unfinished statement would keep the table locked.
        return list(self.cursor.fetchall())

    # Reading and locking

    def lock(self, model: type[Entity], entity_id: str, *, flush: bool = True) -> Any:
        """Lock one row and return it as an entity; raises NotFound."""
        if is_valid_id(entity_id):
            reader = reader_of(model, self.connection.vendor)
            for row in self.query(reader.lock_one, [entity_id], flush=flush):
                return self.remember(reader, row)
        raise not_found(model, entity_id)

    def lock_many(
        self, model: type[Entity], ids: Iterable[str], *, skip_locked: bool = False, flush: bool = True
    ) -> list[Any]:
        """Lock the rows that exist, in the order of their ids; without those locked elsewhere if `skip_locked`."""
        return self._lock_rows(model, [each for each in ids if is_valid_id(each)], skip_locked=skip_locked, flush=flush)

    def _lock_rows(self, model: type[Entity], wanted: list[str], *, skip_locked: bool, flush: bool) -> list[Any]:
        reader = reader_of(model, self.connection.vendor)
        query = reader.lock_one if len(wanted) == 1 else reader.lock_many
        skip = " SKIP LOCKED" if skip_locked and reader.lock_clause else ""
        found = self.query(query + skip, [in_param(wanted, self.connection.vendor)], flush=flush)
        return [self.remember(reader, row) for row in found]

    def lock_known(self, model: type[Entity], ids: Iterable[str], *, skip_locked: bool = False) -> list[Any]:
        """Like `lock_many`, without reading again what this transaction has locked already."""
        found: list[Any] = []
        missing = []
        for entity_id in ids:
            entity = self.entities.get((model, entity_id))
            missing.append(entity_id) if entity is None else found.append(entity)
        if missing:
            # Staged changes are of known rows, so they cannot affect the missing ones.
            found += self._lock_rows(model, missing, skip_locked=skip_locked, flush=False)
        return found

    def lock_ids(self, model: type[Entity], ids: Iterable[str]) -> set[str]:
        """Lock rows in the order of their ids without reading them; return the ids that exist."""
        wanted = sorted(set(ids))
        if not wanted:
            return set()
        lock = reader_of(model, self.connection.vendor).lock_clause
        condition = f"WHERE id {in_clause(self.connection.vendor, len(wanted))} ORDER BY id{lock}"
        found = self.query(
            f"SELECT id FROM {model._meta.db_table} {condition}", [in_param(wanted, self.connection.vendor)]
        )
        self.locked.update((model, pk) for (pk,) in found)
        return {pk for (pk,) in found}

    def lock_where(self, model: type[Entity], condition: str, params: list[Any]) -> list[Any]:
        """Lock and return the entities that a condition selects (the table is `row`), except those locked elsewhere."""
        reader = reader_of(model, self.connection.vendor)
        lock = f"{reader.lock_clause} OF row SKIP LOCKED" if reader.lock_clause else ""
        query = f"SELECT {reader.row_columns} FROM {reader.table} AS row {condition}{lock}"
        return [self.remember(reader, row) for row in self.query(query, params)]

    def remember(self, reader: EntityReader, row: Iterable[Any]) -> Entity:
        entity: Entity = reader.build(row)
        self.entities[type(entity), entity.id] = entity
        return entity

    def latest(self, entity: Entity) -> Entity:
        """Return the entity as this transaction has left it."""
        return self.entities.get((type(entity), entity.id), entity)

    def forget(self, entity: Entity) -> None:
        """Drop an entity that has changed in memory and not in the database."""
        self.entities.pop((type(entity), entity.pk), None)

    def holds_lock_of(self, *models: type[Any]) -> bool:
        """Whether this transaction has locked a row of these models."""
        return any(model in models for keys in (self.entities, self.locked) for model, _pk in keys)

    # Reactions

    def postpone(self, reaction: Callable[[], object]) -> None:
        """Call a reaction after the commit, when no lock is held and waiting is safe.

        Robust: an error there must not fail the committed change; the sweeps find what is left out.
        """
        self.has_postponed = True
        transaction.on_commit(reaction, robust=True)

    # Writing

    def stage(self, changes: Iterable[Change]) -> None:
        """Stage up to MAX_COMBINED changes for the next flush; write more than that at once, in batches."""
        coming = iter(changes)
        few = list(islice(coming, MAX_COMBINED + 1))
        if len(few) + len(self.pending) > MAX_COMBINED:
            self.flush()
        if len(few) > MAX_COMBINED:
            write.update_many(self.connection, self.cursor, chain(few, coming))
        else:
            self.pending += few

    def insert(self, changes: list[Change]) -> None:
        """Write new rows with their first events now."""
        self.flush()
        write.insert_many(self.connection, self.cursor, changes)
        for change in changes:
            change.entity._state.adding = False
            self.entities[type(change.entity), change.entity.pk] = change.entity

    def flush(self) -> None:
        """Write all staged changes, combined into one statement on PostgreSQL."""
        if self.pending:
            changes, self.pending = self.pending, []
            write.update_combined(self.connection, self.cursor, changes)

    def react(self, changes: list[Change]) -> tuple[Entry, ...]:
        """Note the events of these changes and run the reactions, which statecore/apps.py registers.

        Returns the events of the whole cascade.
        """
        by_machine: dict[str, list[Change]] = {"": changes}
        for change in changes:
            self.entries.append(change.entry)
            by_machine.setdefault(change.entry.entity_type, []).append(change)
        before = len(self.entries)
        for entity_type, reaction in tuple(registry.reactions):
            if concerned := by_machine.get(entity_type):
                reaction(self, concerned)
        return tuple(self.entries[before:])


def run_in_transaction(
    step: Callable[[UnitOfWork], T],
    *,
    within: UnitOfWork | None = None,
    dry_run: bool = False,
    request: RequestKey | None = None,
    actor: Actor = THE_SYSTEM,
) -> T:
    """Run a step in one transaction, repeated after a deadlock; inside `within`, run it in a savepoint instead.

    There it runs without a savepoint if an error fails all of `within` anyway.

    After the commit the listeners are notified. A dry run does everything and rolls it back. With a request, a step
    that returns an outcome runs once per actor and key, and a repetition gets the stored outcome.
    """
    if request is not None:
        step = cast("Callable[[UnitOfWork], T]", partial(answer_once, request, actor, cast("Any", step)))
    if within is not None:
        if not within.is_one_step or dry_run:
            return _run_in_savepoint(step, within, dry_run=dry_run)
        result = step(within)
        within.flush()
        return result
    connection = connections[DEFAULT_DB_ALIAS]
    if getattr(connection, "unit_of_work", None) is not None:
        raise RuntimeError("a unit of work is open on this connection: pass it as `within`")
    attempt = partial(_run_once, step, connection, dry_run=dry_run)
    return retry_transient(attempt if spans.tracer is None else partial(spans.run, SPAN, attempt))


def retry_transient(attempt: Callable[[], T]) -> T:
    """Repeat after a deadlock or serialization failure; an outer transaction cannot continue, so there it is raised.

    An attempt that waited for a lock until its timeout is the last, so that the caller gets an answer in time.
    """
    attempts = 1 if connections[DEFAULT_DB_ALIAS].in_atomic_block else ATTEMPTS
    until = time.monotonic() + RETRIED_SECONDS
    for number in range(1, attempts):
        try:
            return attempt()
        except OperationalError as error:
            if not is_transient(error) or time.monotonic() > until:
                raise
            time.sleep(random.uniform(0, 0.005 * 2**number))  # noqa: S311 - jitter, not a secret
    return attempt()


def is_transient(error: OperationalError) -> bool:
    sqlstate: Any = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, RowsLocked | KeyInUse) or sqlstate in TRANSIENT or "database is locked" in str(error)


def _run_once(step: Callable[[UnitOfWork], T], connection: BaseDatabaseWrapper, *, dry_run: bool) -> T:
    database_clock.follow(connection)
    with transaction.atomic():
        work = UnitOfWork(connection, persistent_cursor(connection))
        connection.unit_of_work = work  # type: ignore[attr-defined]
        try:
            result = step(work)
            work.flush()
        finally:
            connection.unit_of_work = None  # type: ignore[attr-defined]
        if spans.tracer is not None:
            describe_on_span(work)
        if dry_run:
            transaction.set_rollback(True)
        else:
            notify_after_commit()
    return result


def describe_on_span(work: UnitOfWork) -> None:
    """List what was recorded on the current span, for example `task t1 execution_completed`."""
    recorded = (f"{entry.entity_type} {entry.entity_id} {entry.trigger}" for entry in work.entries)
    spans.list_on_current("statecore.events", recorded)


def notify_committed() -> None:
    """Notify the listeners of a statement that was committed on its own; Django's way takes several times as long."""
    for listener in registry.listeners:
        try:
            listener()
        except Exception:
            log.exception("listener_failed")


def notify_after_commit() -> None:
    for listener in registry.listeners:
        # Robust: a listener that fails must not make a committed change look as if it had failed.
        transaction.on_commit(listener, robust=True)


def _run_in_savepoint(step: Callable[[UnitOfWork], T], work: UnitOfWork, *, dry_run: bool) -> T:
    """Run a step in a savepoint; after a refusal or dry run, forget what the step has locked and staged."""
    work.flush()
    before, locked, shared = len(work.entries), set(work.locked), set(work.shared)
    has_postponed = work.has_postponed
    kept = False
    try:
        with transaction.atomic():
            result = step(work)
            work.flush()
            if dry_run:
                transaction.set_rollback(True)
        kept = not dry_run
    finally:
        if not kept:  # PostgreSQL releases the locks taken since the savepoint
            del work.entries[before:]
            work.locked, work.shared, work.has_postponed = locked, shared, has_postponed
            work.pending, work.entities, work.parent_states = [], {}, {}
            work.unobserved, work.completing = set(), set()
    return result
