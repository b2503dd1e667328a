"""On PostgreSQL a connection keeps a cursor for each statement, and no more than it needs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore.storage import rows

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

NUMBER, TEXT = "SELECT %s::int", "SELECT %s::text"


@pytest.fixture
def cursors() -> rows.StatementCursors:
    return rows.StatementCursors(connection)


def ask(cursors: rows.StatementCursors, statement: str, value: object) -> list[tuple[object, ...]]:
    cursors.execute(statement, [value])
    return cursors.fetchall()


def test_a_repeated_statement_uses_the_same_cursor(cursors: rows.StatementCursors) -> None:
    assert ask(cursors, NUMBER, 1) == [(1,)]
    first = cursors.cursor
    assert ask(cursors, TEXT, "a") == [("a",)]
    assert cursors.cursor is not first
    assert ask(cursors, "".join(NUMBER), 2) == [(2,)]
    assert cursors.cursor is first


def test_parameters_of_another_type_are_converted_anew(cursors: rows.StatementCursors) -> None:
    for value in ("a", None, "b", 7):
        assert ask(cursors, TEXT, value) == [(None if value is None else str(value),)]


def test_a_large_result_is_not_kept(cursors: rows.StatementCursors) -> None:
    statement = "SELECT * FROM generate_series(1, %s)"
    assert len(ask(cursors, statement, rows.MAX_KEPT_ROWS)) == rows.MAX_KEPT_ROWS
    assert statement in cursors.cursors
    assert len(ask(cursors, statement, rows.MAX_KEPT_ROWS + 1)) == rows.MAX_KEPT_ROWS + 1
    assert statement not in cursors.cursors


def test_the_number_of_cursors_is_limited(cursors: rows.StatementCursors) -> None:
    for number in range(rows.MAX_STATEMENTS + 2):
        assert ask(cursors, f"SELECT %s::int + {number}", 1) == [(number + 1,)]
    assert len(cursors.cursors) <= rows.MAX_STATEMENTS


def test_a_connection_keeps_its_cursors_unless_queries_are_logged() -> None:
    kept = rows.persistent_cursor(connection)
    assert rows.persistent_cursor(connection) is kept
    with CaptureQueriesContext(connection) as queries:
        logged = rows.persistent_cursor(connection)
        logged.execute(NUMBER, [1])
    assert logged is not kept
    assert len(queries) == 1
