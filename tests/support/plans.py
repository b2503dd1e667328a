"""How the database would answer a query: by which index, and at what cost. And tables big enough to matter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from django.db import connection, transaction
from django.db.models import Model, QuerySet

from statecore.kernel import registry, triggers

EARLIER = {
    "postgresql": "state_entered_at - n * interval '1 minute'",
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', state_entered_at, '-' || n || ' minutes')",
}


def copied(entity: Any, rows: int, *, apart: bool = False, **changes: Any) -> None:
    """The same row so many times with ids of its own, past the door: who has written them does not matter here.

    Where they are apart they have come to their state one after the other: many of one moment are sorted to the last.
    """
    fields = [field.column for field in entity._meta.concrete_fields]
    computed = {"state_entered_at": EARLIER[connection.vendor]} if apart else {}
    values = ", ".join("%s" if name in changes else computed.get(name, name) for name in fields[1:])
    series = (
        "generate_series(1, %s) AS made(n)"
        if connection.vendor == "postgresql"
        else "(WITH RECURSIVE made(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < %s) SELECT n FROM made)"
    )
    table = entity._meta.db_table
    with triggers.lowered(connection), connection.cursor() as cursor:
        given = [changes[name] for name in fields[1:] if name in changes]
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(fields)}) SELECT id || '-' || n, {values} FROM {table}, {series} "
            "WHERE id = %s",
            [*given, rows, entity.pk],
        )


def swept(*models: type[Model]) -> None:
    """As if no test had been here before: dead rows, grown indexes and old statistics decide which index is taken.

    These tables, or all. Who looks at what it has not committed yet has them swept before it touches them.
    """
    if connection.vendor == "postgresql":
        found = connection.introspection.django_table_names(only_existing=True)
        tables = [model._meta.db_table for model in models] or found
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute("SET lock_timeout = '30s'")
                cursor.execute(f"VACUUM (FULL, ANALYZE) {', '.join(tables)}")
        finally:
            other.close()


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    for node in [plan] if isinstance(plan, dict) else plan:
        yield node
        yield from nodes(node.get("Plans", []))


def plan_of(queryset: QuerySet[Any]) -> list[dict[str, Any]]:
    return list(nodes(json.loads(queryset.explain(format="JSON", analyze=True, buffers=True))[0]["Plan"]))


def planned_as_if_big(*ways: str) -> None:
    """A small table is read whole, whatever indexes it has, or in one of these ways; a big one would not be."""
    with connection.cursor() as cursor:
        for way in ("seqscan", *ways):
            cursor.execute(f"SET LOCAL enable_{way} = off")


def words_of_plan(sql: str, params: Any = None, *, without: Sequence[str] = ()) -> str:
    """How a big table would be asked, as the database tells it."""
    explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            planned_as_if_big(*without)
        cursor.execute(f"{explain} {sql}", params)
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def over_live_rows(entity_type: str) -> set[str]:
    """The indexes that not every row is in: in an empty table they cost the same, and which is taken is chance.

    Of a machine that has no end every row is live, and so is every index.
    """
    flow = registry.flow(entity_type)
    return {index.name for index in flow.model._meta.indexes if index.condition is not None or not flow.final}


def steps(work: Any) -> int:
    """How many instructions of SQLite's machine it takes, in tens."""
    counted = [0]
    connection.connection.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 10)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return counted[0] * 10


def each_read(work: Any) -> list[tuple[int, str]]:
    """What each statement of a piece of work reads, and which it is: rows on PostgreSQL, on SQLite steps."""
    return _rows_of_each(work) if connection.vendor == "postgresql" else _steps_of_each(work)


def _rows_of_each(work: Any) -> list[tuple[int, str]]:
    """Explained first, by the same connection, so that it sees the same; what it would write is taken back."""
    found: list[tuple[int, str]] = []

    def explained(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE")):
            plan = _taken_back(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
            found.append((sum(map(_rows_read, nodes(plan))), sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        work()
    return found


def _taken_back(explain: str, params: Any) -> Any:
    with psycopg.ClientCursor(connection.connection) as cursor, connection.connection.transaction(force_rollback=True):
        cursor.execute(explain, params)
        ((told,),) = cursor.fetchall()
    return told[0]["Plan"]


def _rows_read(node: dict[str, Any]) -> int:
    if "Relation Name" not in node:
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


def _steps_of_each(work: Any) -> list[tuple[int, str]]:
    """A statement goes on while its rows are fetched: what is counted is the last one's."""
    found: list[tuple[int, str]] = []

    def named(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        found.append((0, sql))
        return execute(sql, params, many, context)

    def count() -> None:
        if found:
            found[-1] = (found[-1][0] + 10, found[-1][1])

    connection.ensure_connection()
    connection.connection.set_progress_handler(count, 10)
    try:
        with connection.execute_wrapper(named):
            work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return found
