"""Query plans and their costs, and tables large enough for the planner to use an index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from django.db import connection, transaction
from django.db.models import Model, QuerySet

from statecore.kernel import registry
from statecore.storage import triggers

EARLIER = {
    "postgresql": "state_entered_at - n * interval '1 minute'",
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', state_entered_at, '-' || n || ' minutes')",
}


def insert_copies(entity: Any, rows: int, *, apart: bool = False, **changes: Any) -> None:
    """Inserts copies of a row in SQL, bypassing the transition service.

    With `apart` each copy entered its state a minute before the previous one; otherwise all have the same time.
    """
    fields = [field.column for field in entity._meta.concrete_fields]
    computed = {"state_entered_at": EARLIER[connection.vendor]} if apart else {}
    computed["link_digests"] = "''"  # as of an earlier version, so that links can be inserted too
    values = ", ".join("%s" if name in changes else computed.get(name, name) for name in fields[1:])
    series = (
        "generate_series(1, %s) AS made(n)"
        if connection.vendor == "postgresql"
        else "(WITH RECURSIVE made(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < %s) SELECT n FROM made)"
    )
    table = entity._meta.db_table
    with triggers.disabled(connection), connection.cursor() as cursor:
        given = [changes[name] for name in fields[1:] if name in changes]
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(fields)}) SELECT id || '-' || n, {values} FROM {table}, {series} "
            "WHERE id = %s",
            [*given, rows, entity.pk],
        )


def vacuum_tables(*models: type[Model]) -> None:
    """Vacuums the tables of these models, or all, so that the rows of earlier tests do not influence the plan.

    VACUUM runs on another connection: call this before the test writes, or it waits for the test's locks.
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


RELATIONS = "relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace"
COLUMNS = f"starelid IN (SELECT oid FROM pg_class WHERE {RELATIONS})"
NO_DETAILS = ", ".join(f"stakind{n} = 0, stanumbers{n} = NULL, stavalues{n} = NULL" for n in range(1, 6))
# What autovacuum may have left, as changes of fresh statistics. The last two are extremes of outdated statistics.
STATISTICS = {
    "up to date": (),
    "never analyzed": (
        f"UPDATE pg_class SET relpages = 0, reltuples = -1 WHERE {RELATIONS}",
        f"DELETE FROM pg_statistic WHERE {COLUMNS}",
    ),
    "vacuumed and not analyzed": (f"DELETE FROM pg_statistic WHERE {COLUMNS}",),
    "analyzed before the rows were committed": (
        f"UPDATE pg_class SET reltuples = 0 WHERE {RELATIONS}",
        f"DELETE FROM pg_statistic WHERE {COLUMNS}",
    ),
    "every row has the same values": (
        f"UPDATE pg_statistic SET stadistinct = 1, stanullfrac = 0, {NO_DETAILS} WHERE {COLUMNS}",
    ),
    "every row has different values": (
        f"UPDATE pg_statistic SET stadistinct = -1, stanullfrac = 0, {NO_DETAILS} WHERE {COLUMNS}",
    ),
}


def set_statistics(name: str) -> None:
    """Gives the tables certain statistics until the end of the transaction, which keeps autovacuum away from them."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        for statement in STATISTICS[name]:
            cursor.execute(statement)


def plan_nodes(plan: Any) -> Iterator[dict[str, Any]]:
    for node in [plan] if isinstance(plan, dict) else plan:
        yield node
        yield from plan_nodes(node.get("Plans", []))


def analyze_query(queryset: QuerySet[Any]) -> list[dict[str, Any]]:
    return list(plan_nodes(json.loads(queryset.explain(format="JSON", analyze=True, buffers=True))[0]["Plan"]))


def avoid_sequential_scans(*ways: str) -> None:
    """Makes the planner treat a small table like a large one: no sequential scan, and none of the given plan types."""
    with connection.cursor() as cursor:
        for way in ("seqscan", *ways):
            cursor.execute(f"SET LOCAL enable_{way} = off")


def explain_query(sql: str, params: Any = None, *, without: Sequence[str] = ()) -> str:
    """Returns the plan of a statement as text, as it would be for a large table."""
    explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            avoid_sequential_scans(*without)
        cursor.execute(f"{explain} {sql}", params)
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def partial_indexes(entity_type: str) -> set[str]:
    """Returns the names of the indexes that hold active rows only.

    In an empty table they cost the same, so the planner's choice is arbitrary. A machine without final states
    has active rows only, so all its indexes count.
    """
    flow = registry.flow(entity_type)
    return {index.name for index in flow.model._meta.indexes if index.condition is not None or not flow.final}


def count_steps(work: Any) -> int:
    """Returns the number of SQLite virtual machine instructions that the work takes, rounded to tens."""
    counted = [0]
    connection.connection.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 10)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return counted[0] * 10


def reads_per_statement(work: Any) -> list[tuple[int, str]]:
    """Returns what each statement of the work reads, with its SQL: rows on PostgreSQL, instructions on SQLite."""
    return _rows_per_statement(work) if connection.vendor == "postgresql" else _steps_per_statement(work)


def _rows_per_statement(work: Any) -> list[tuple[int, str]]:
    """Explains each statement on the same connection before it runs, and rolls the explanation's writes back."""
    found: list[tuple[int, str]] = []

    def explained(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE")):
            plan = _explain_and_roll_back(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
            found.append((sum(map(_rows_read, plan_nodes(plan))), sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        work()
    return found


def _explain_and_roll_back(explain: str, params: Any) -> Any:
    with psycopg.ClientCursor(connection.connection) as cursor, connection.connection.transaction(force_rollback=True):
        cursor.execute(explain, params)
        ((plan,),) = cursor.fetchall()
    return plan[0]["Plan"]


def _rows_read(node: dict[str, Any]) -> int:
    """Leaves out the system catalogs, which grow with the schema and not with the data."""
    if node.get("Relation Name", "pg_").startswith("pg_"):
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


def _steps_per_statement(work: Any) -> list[tuple[int, str]]:
    """A statement still works while its rows are fetched, so the count belongs to the latest statement."""
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
