"""Compares the guards in the database with their definitions, and finds what could circumvent them.

A trigger is compared as a whole: events, columns, condition, time, order, function and enabled flag. A foreign trigger
or rule on the same table could undo what a guard has checked, and a setting pinned on a role, a database or a function
could switch off foreign keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import orjson
from django.db.backends.base.base import BaseDatabaseWrapper

from . import triggers


class Problem(NamedTuple):
    """A trigger, rule, table or setting that is not as it should be."""

    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name} {self.detail}"


def find_problems(connection: BaseDatabaseWrapper) -> list[Problem]:
    """Returns everything that weakens the guards; empty if they are as defined."""
    found = [*_compare_triggers(connection)]
    queries = POSTGRESQL if connection.vendor == "postgresql" else SQLITE
    tables = orjson.dumps(triggers.tables()).decode()
    with connection.cursor() as cursor:
        for query, detail in queries.items():
            cursor.execute(query, [tables] if "%s" in query else None)
            found += [Problem(str(name), detail.format(*values)) for name, *values in cursor.fetchall()]
    return sorted(set(found))


def _compare_triggers(connection: BaseDatabaseWrapper) -> Iterator[Problem]:
    expected, found = triggers.definitions(connection), triggers.read_all(connection)
    for (name, table), text in expected.items():
        if (name, table) not in found:
            yield Problem(name, "is missing: run manage.py migrate")
        elif found[name, table] != text:
            yield Problem(name, "differs from its definition: run manage.py migrate")
    for name, table in found.keys() - expected.keys():
        yield Problem(name, f"is a foreign trigger on {table}: drop it")


# Queries for what should not exist, and what to report of each row: the name, then the other columns.
SQLITE = {
    """
    SELECT name FROM sqlite_master WHERE type <> 'table' AND name IN (SELECT value FROM json_each(%s))
    """: "is not a table",
}

_TABLES = "pg_class AS c JOIN json_array_elements_text(%s) AS given ON c.oid = to_regclass(quote_ident(given))"
_WEAKENS = "setting ILIKE 'session_replication_role=%'"

POSTGRESQL = {
    f"SELECT c.relname FROM {_TABLES} WHERE c.relkind NOT IN ('r', 'p')": "is not a table",
    f"SELECT c.relname FROM {_TABLES} WHERE c.relrowsecurity": "has row security, which hides rows: disable it",
    f"""
    SELECT r.rulename, c.relname FROM {_TABLES} JOIN pg_rewrite AS r ON r.ev_class = c.oid
    WHERE c.relkind IN ('r', 'p')
    """: "is a foreign rule on {}: drop it",
    f"""
    SELECT k.conname, c.relname FROM {_TABLES} JOIN pg_trigger AS t ON t.tgrelid = c.oid
    JOIN pg_constraint AS k ON k.oid = t.tgconstraint WHERE t.tgisinternal AND t.tgenabled <> 'O'
    """: "is a constraint of {} that is switched off: enable its triggers",
    f"""
    SELECT setting, coalesce(r.rolname, 'every role'), coalesce(d.datname, 'every database')
    FROM pg_db_role_setting AS s CROSS JOIN unnest(s.setconfig) AS setting
    LEFT JOIN pg_roles AS r ON r.oid = s.setrole LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
    WHERE (s.setdatabase = 0 OR d.datname = current_database()) AND {_WEAKENS}
    """: "is pinned on {} in {}: reset it",
    f"""
    SELECT setting, f.oid::regprocedure::text FROM pg_proc AS f CROSS JOIN unnest(f.proconfig) AS setting
    WHERE {_WEAKENS}
    """: "is pinned on the function {}: drop the function",
    """
    SELECT name, setting FROM pg_settings WHERE name = 'session_replication_role' AND setting <> 'origin'
    """: "is {} for this connection: reset it",
}
