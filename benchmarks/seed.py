"""Tables, and the rows the contenders move: copies of a few real entities, made set-based."""

# ruff: noqa: S608 - every name and number put into a statement is this module's own

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
    """The schema, then that many rows for each contender; every row with the event of its creation."""
    migrate()
    _templates()
    from statecore.kernel import triggers

    with triggers.lowered(connection), connection.cursor() as cursor:
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


def _templates() -> None:
    """One entity of each kind, made by the door, so that the copies are what the door makes."""
    from statecore import door
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.kernel.registry import flow
    from statecore.records import Phase

    def create(entity_type: str, name: str, **fields: Any) -> None:
        door.create(flow(entity_type).model, actor=THE_SYSTEM, id=name, **fields)

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
    """Rows named prefix_000000001 and on, like the template but for what is `other`, with its event as theirs."""
    fill_rows(cursor, table, template, prefix, count, other or {})
    given = {"event_id": _named(f"evt_{prefix}"), "entity_id": _named(prefix), "body": body}
    columns = _columns(cursor, "statecore_event")
    cursor.execute(
        f"INSERT INTO statecore_event ({', '.join(columns)}) {_counter(count)} "
        f"SELECT {', '.join(given.get(name, f't.{name}') for name in columns)} "
        f"FROM counter, statecore_event AS t WHERE t.entity_id = '{template}' AND t.sequence = 1"
    )


def fill_rows(cursor: Any, table: str, template: str, prefix: str, count: int, other: Mapping[str, str]) -> None:
    """The rows alone; `n` in what is `other` is the number of the row."""
    names = [name for name in _columns(cursor, table) if name != "id"]
    values = ", ".join(other.get(name, f"t.{name}") for name in names)
    cursor.execute(
        f"INSERT INTO {table} (id, {', '.join(names)}) {_counter(count)} SELECT {_named(prefix)}, {values} "
        f"FROM counter, {table} AS t WHERE t.id = '{template}'"
    )


@contextmanager
def in_bulk(cursor: Any, *tables: str) -> Iterator[None]:
    """For millions of rows: foreign keys are not asked, and indexes are built when the rows are there.

    Building an index tells the planner how many rows there are, and nothing of what is in them.
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
    """Tasks that are completed, each with the event of its creation."""
    fill(cursor, "statecore_task", template, "done", count, DONE)


def fill_histories(cursor: Any, template: str, prefix: str, count: int, length: int, whole: int) -> None:
    """Finished tasks with so many events each, all of them numbered, as the sequencer would have.

    Only so many first and last ones have the `whole` bodies of theirs: millions would need more disk than there is.
    """
    body = f"CASE WHEN n BETWEEN {whole + 1} AND {count - whole} THEN '{{}}' ELSE t.body END"
    fill(cursor, "statecore_task", template, prefix, count, DONE | {"version": str(length)}, body)
    columns = _columns(cursor, "statecore_event")
    for sequence in range(2, length + 1):
        given = {"event_id": f"'evt_{sequence}' || substr(event_id, 4)", "sequence": str(sequence)}
        given |= {"from_state": "'pending'", "to_state": "'completed'", "kind": "'normal'"}
        cursor.execute(
            f"INSERT INTO statecore_event ({', '.join(columns)}) SELECT {', '.join(given.get(n, n) for n in columns)} "
            f"FROM statecore_event WHERE event_id LIKE 'evt_{prefix}_%'"
        )
    # What is without a body comes first: the latest events are looked at.
    for such in ("=", "<>"):
        _number(cursor, f"e.body {such} '{{}}'")
    _note_the_head(cursor)


def _number(cursor: Any, condition: str) -> None:
    told = "event_id, entity_type, kind, severity, actor"
    cursor.execute(
        f"INSERT INTO statecore_position (position, run_id, {told}) "
        "SELECT row_number() OVER () + (SELECT coalesce(max(position), 0) FROM statecore_position), '', "
        f"{told} FROM statecore_event AS e WHERE {condition} "
        "AND NOT EXISTS (SELECT 1 FROM statecore_position AS p WHERE p.event_id = e.event_id)"
    )


def _note_the_head(cursor: Any) -> None:
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
    """What raw SQL writes: the same columns, indexes and checks, without the triggers."""
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
