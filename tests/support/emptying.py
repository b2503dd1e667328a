"""Empties the tables that have rows after a test that has committed.

Django's flush empties every table, and recreates all permissions and triggers each time.
"""

from __future__ import annotations

from typing import Any

from django.db import OperationalError, connections, transaction

from statecore.storage.triggers import PREFIX, installed

# Filled by the migrations, and changed by no test.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}
# Filled by the migrations; a test may change them.
GROUPS = ("auth_group_permissions", "auth_group", "statecore_defaultgrant")


def empty(alias: str, groups: list[Any]) -> None:
    connection = connections[alias]
    filled = _tables_with_rows(connection)
    if read_group_permissions(alias) == groups:
        filled = [table for table in filled if table not in GROUPS]
    delete = _on_postgresql if connection.vendor == "postgresql" else _on_sqlite
    if filled:
        delete(connection, filled)
    if set(filled) & set(GROUPS):
        from statecore.dashboard import groups as console

        console.create_groups(alias)


def read_group_permissions(alias: str) -> list[Any]:
    """Returns the permissions of every group."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT g.name, p.permission_id FROM auth_group AS g "
            "LEFT JOIN auth_group_permissions AS p ON p.group_id = g.id ORDER BY 1, 2"
        )
        return list(cursor.fetchall())


def _tables_with_rows(connection: Any) -> list[str]:
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    query = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [table for (table,) in cursor.fetchall()]


def _delete_triggers(connection: Any, tables: list[str]) -> dict[str, tuple[str, str]]:
    """Returns the name and the SQL of the triggers that refuse DELETE, by table."""
    wanted = {f"{PREFIX}{table}_delete": table for table in tables}
    return {wanted[name]: (name, text) for (name, _), text in installed(connection).items() if name in wanted}


def _on_postgresql(connection: Any, tables: list[str]) -> None:
    guards = _delete_triggers(connection, tables)
    script = ["SET LOCAL session_replication_role = replica"]  # skips foreign keys
    for table in tables:
        steps = [f"DELETE FROM {table}"]
        if table in guards:
            change, name = f"ALTER TABLE {table}", guards[table][0]
            steps = [f"{change} DISABLE TRIGGER {name}", *steps, f"{change} ENABLE ALWAYS TRIGGER {name}"]
        script += steps
    while True:
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cursor.execute("; ".join(script))
            return
        except OperationalError as error:  # a server still works on the last request of a killed agent
            if "deadlock detected" not in str(error):
                raise


def _on_sqlite(connection: Any, tables: list[str]) -> None:
    guards = _delete_triggers(connection, tables)
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
