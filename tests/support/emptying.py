"""Emptying the database after a test that has committed: only what has rows, since most tables have none.

Django's own flush empties every table, makes all permissions again and has all triggers installed again, each time.
"""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction

from statecore.kernel.triggers import PREFIX, installed

# What every database is born with, and no test changes.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}
# What every database is born with, and a test may change.
GROUPS = ("auth_group_permissions", "auth_group")


def empty(alias: str, groups: list[Any]) -> None:
    connection = connections[alias]
    filled = _filled(connection)
    if groups_of(alias) == groups:
        filled = [table for table in filled if table not in GROUPS]
    delete = _on_postgresql if connection.vendor == "postgresql" else _on_sqlite
    if filled:
        delete(connection, filled)
    if set(filled) & set(GROUPS):
        from dashboard import groups as console

        console.make(alias)


def groups_of(alias: str) -> list[Any]:
    """Who may do what, as far as the groups say."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT g.name, p.permission_id FROM auth_group AS g "
            "LEFT JOIN auth_group_permissions AS p ON p.group_id = g.id ORDER BY 1, 2"
        )
        return list(cursor.fetchall())


def _filled(connection: Any) -> list[str]:
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    asked = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(asked)
        return [table for (table,) in cursor.fetchall()]


def _guards(connection: Any, tables: list[str]) -> dict[str, tuple[str, str]]:
    """The triggers that keep rows from being deleted, by their table: each with its name and its text."""
    wanted = {f"{PREFIX}{table}_delete": table for table in tables}
    return {wanted[name]: (name, text) for (name, _), text in installed(connection).items() if name in wanted}


def _on_postgresql(connection: Any, tables: list[str]) -> None:
    guards = _guards(connection, tables)
    script = ["SET LOCAL session_replication_role = replica"]  # without foreign keys
    for table in tables:
        steps = [f"DELETE FROM {table}"]
        if table in guards:
            change, name = f"ALTER TABLE {table}", guards[table][0]
            steps = [f"{change} DISABLE TRIGGER {name}", *steps, f"{change} ENABLE ALWAYS TRIGGER {name}"]
        script += steps
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute("; ".join(script))


def _on_sqlite(connection: Any, tables: list[str]) -> None:
    guards = _guards(connection, tables)
    with (
        connection.constraint_checks_disabled(),
        transaction.atomic(using=connection.alias),
        connection.cursor() as cursor,
    ):
        for table in tables:
            if table in guards:
                cursor.execute(f"DROP TRIGGER {guards[table][0]}")
            cursor.execute(f"DELETE FROM {table}")
            if table in guards:
                cursor.execute(guards[table][1])
