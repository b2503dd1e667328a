"""Creates the tables and fills them with copies of a few real entities, set-based."""

# ruff: noqa: S608 - all interpolated names and numbers come from this module

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import connection

RUNNING = "state = 'running', worker_id = 'worker', attempt = 1, started_at = created_at, lease_expires_at = created_at"
IDLE = "state = 'IDLE'"
DONE = {
    "state": "'completed'",
    "completed_at": "t.updated_at",
    "started_at": "t.created_at",
    "attempt": "1",
    "worker_id": "NULL",
    "lease_expires_at": "NULL",
}


def migrate() -> None:
    call_command("migrate", run_syncdb=True, verbosity=0)


def prepare(running: int, pending: int, workers: int) -> None:
    """Creates the schema and the rows for each contender, each with its creation event."""
    migrate()
    create_templates()
    from statecore.storage import triggers

    with triggers.disabled(connection), connection.cursor() as cursor:
        fill(cursor, "statecore_task", "task", "pending", pending)
        cursor.execute(f"UPDATE statecore_task SET {RUNNING} WHERE id = 'task'")
        fill(cursor, "statecore_task", "task", "running", running)
        cursor.execute(f"UPDATE statecore_uetworker SET {IDLE} WHERE id = 'uet'")
        fill(cursor, "statecore_uetworker", "uet", "uet", workers)
        if apps.is_installed("benchmarks.peer"):
            _fill_peers(cursor, running)
        make_twins(cursor)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("CHECKPOINT" if _on_postgres() else "PRAGMA wal_checkpoint(TRUNCATE)")


def create_templates() -> None:
    """Creates one entity of each kind through the transition service, as templates for the copies."""
    from statecore import transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.kernel.registry import flow
    from statecore.records import Phase

    def create(entity_type: str, name: str, **fields: Any) -> None:
        transitions.create(flow(entity_type).model, actor=THE_SYSTEM, id=name, **fields)

    Phase.objects.create(id="phase")
    create("run", "run", phase="phase")
    create("workstream", "workstream", run="run")
    create("worker", "worker")
    create("task", "task", workstream="workstream")
    create("uet_worker", "uet", worker_type="bench")


def _on_postgres() -> bool:
    return connection.vendor == "postgresql"


def _columns(cursor: Any, table: str) -> list[str]:
    return [column.name for column in connection.introspection.get_table_description(cursor, table)]


def fill(
    cursor: Any,
    table: str,
    template: str,
    prefix: str,
    count: int,
    other: Mapping[str, str] | None = None,
    body: str = "t.body",
) -> None:
    """Copies a row and its first event as prefix_000000001 and so on, with the columns in `other` replaced."""
    fill_rows(cursor, table, template, prefix, count, other or {})
    given = {"event_id": _named(f"evt_{prefix}"), "entity_id": _named(prefix), "body": body}
    columns = _columns(cursor, "statecore_event")
    cursor.execute(
        f"INSERT INTO statecore_event ({', '.join(columns)}) {_counter(count)} "
        f"SELECT {', '.join(given.get(name, f't.{name}') for name in columns)} "
        f"FROM counter, statecore_event AS t WHERE t.entity_id = '{template}' AND t.sequence = 1"
    )


def fill_rows(cursor: Any, table: str, template: str, prefix: str, count: int, other: Mapping[str, str]) -> None:
    """Copies a row without its event; expressions in `other` can use the row number `n`."""
    names = [name for name in _columns(cursor, table) if name != "id"]
    values = ", ".join(other.get(name, f"t.{name}") for name in names)
    cursor.execute(
        f"INSERT INTO {table} (id, {', '.join(names)}) {_counter(count)} SELECT {_named(prefix)}, {values} "
        f"FROM counter, {table} AS t WHERE t.id = '{template}'"
    )


@contextmanager
def in_bulk(cursor: Any, *tables: str) -> Iterator[None]:
    """Disables foreign keys and builds the indexes after the rows were inserted, for millions of rows.

    Building an index updates the planner's row count, but not its column statistics.
    """
    if not _on_postgres():
        yield
        return
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index "
        "WHERE indrelid::regclass::text = ANY(%s) AND NOT indisunique",
        [list(tables)],
    )
    indexes = cursor.fetchall()
    cursor.execute("SET session_replication_role = replica; SET maintenance_work_mem = '512MB'")
    for name, _definition in indexes:
        cursor.execute(f"DROP INDEX {name}")
    yield
    for _name, definition in indexes:
        cursor.execute(definition)
    cursor.execute("RESET session_replication_role; RESET maintenance_work_mem")


def fill_finished(cursor: Any, template: str, count: int) -> None:
    """Adds completed tasks, each with its creation event."""
    fill(cursor, "statecore_task", template, "done", count, DONE)


def fill_histories(cursor: Any, template: str, prefix: str, count: int, length: int, full: int) -> None:
    """Adds finished tasks with `length` events each, numbered like the sequencer would.

    Only the first and last `full` tasks have full event bodies, because of the disk space.
    """
    body = f"CASE WHEN n BETWEEN {full + 1} AND {count - full} THEN '{{}}' ELSE t.body END"
    fill(cursor, "statecore_task", template, prefix, count, DONE | {"version": str(length)}, body)
    columns = _columns(cursor, "statecore_event")
    for sequence in range(2, length + 1):
        given = {"event_id": f"'evt_{sequence}' || substr(event_id, 4)", "sequence": str(sequence)}
        given |= {"from_state": "'pending'", "to_state": "'completed'", "kind": "'normal'"}
        cursor.execute(
            f"INSERT INTO statecore_event ({', '.join(columns)}) SELECT {', '.join(given.get(n, n) for n in columns)} "
            f"FROM statecore_event WHERE event_id LIKE 'evt_{prefix}_%'"
        )
    # Events without a body get the lower positions, because pages show the latest events.
    for such in ("=", "<>"):
        _number(cursor, f"e.body {such} '{{}}'")
    _store_head(cursor)


def _number(cursor: Any, condition: str) -> None:
    columns = "event_id, entity_type, kind, severity, actor"
    cursor.execute(
        f"INSERT INTO statecore_position (position, run_id, {columns}) "
        "SELECT row_number() OVER () + (SELECT coalesce(max(position), 0) FROM statecore_position), '', "
        f"{columns} FROM statecore_event AS e WHERE {condition} "
        "AND NOT EXISTS (SELECT 1 FROM statecore_position AS p WHERE p.event_id = e.event_id)"
    )


def _store_head(cursor: Any) -> None:
    cursor.execute("DELETE FROM statecore_numbering")
    cursor.execute(
        "INSERT INTO statecore_numbering (id, head, seen, cluster) "
        "SELECT 1, max(position), '', '' FROM statecore_position"
    )


def _fill_peers(cursor: Any, count: int) -> None:
    others = [name for name in _columns(cursor, "peer_peertask") if name != "id"]
    cursor.execute(
        f"INSERT INTO peer_peertask (id, {', '.join(others)}) {_counter(count)} "
        f"SELECT n, {', '.join(others)} FROM counter, statecore_task WHERE id = 'task'"
    )
    names = ", ".join(_columns(cursor, "peer_peerevent"))
    cursor.execute(f"INSERT INTO peer_peerevent ({names}) SELECT {names} FROM statecore_event")


def _counter(count: int) -> str:
    return f"WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < {count})"


def _named(prefix: str) -> str:
    return f"'{prefix}_' || substr('00000000' || n, length('' || n))"


def make_twins(cursor: Any) -> None:
    """Creates the tables for raw SQL, with the same columns, indexes and checks but without triggers."""
    for table in ("statecore_task", "statecore_uetworker", "statecore_event"):
        twin = table.replace("statecore_", "twin_")
        if _on_postgres():
            cursor.execute(f"CREATE TABLE {twin} (LIKE {table} INCLUDING ALL)")
        else:
            _make_sqlite_twin(cursor, table, twin)
        cursor.execute(f"INSERT INTO {twin} SELECT * FROM {table}")


def _make_sqlite_twin(cursor: Any, table: str, twin: str) -> None:
    cursor.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = %s AND sql IS NOT NULL ORDER BY type = 'index'", [table]
    )
    for (statement,) in cursor.fetchall():
        renamed = statement.replace(f'"{table}"', f'"{twin}"')
        cursor.execute(renamed.replace('INDEX "', 'INDEX "twin_'))
