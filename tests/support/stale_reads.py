"""Finds statements that read a table while a change of one of its rows is staged and not yet written.

The transition service stages changes and writes them together; every read must flush first, or state that staged
changes cannot affect it (`UnitOfWork.query(..., flush=False)`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from statecore.transitions.unit_of_work import UnitOfWork

READS = ("SELECT", "WITH", "UPDATE", "DELETE")


class StaleRead(AssertionError):
    """A statement reads rows whose changes are staged."""


@contextmanager
def refuse_stale_reads(connection: BaseDatabaseWrapper) -> Iterator[None]:
    exempt: list[str] = []
    query = UnitOfWork.query

    def note_exemption(work: UnitOfWork, sql: str, *args: Any, flush: bool = True) -> list[Any]:
        exempt.append("" if flush else sql)
        try:
            return query(work, sql, *args, flush=flush)
        finally:
            exempt.pop()

    def check(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        work = getattr(connection, "unit_of_work", None)
        if work is not None and work.pending and sql.startswith(READS) and sql not in exempt:
            tables = {type(change.entity)._meta.db_table for change in work.pending}
            if stale := sorted(table for table in tables if f'"{table}"' in sql or f" {table} " in sql):
                raise StaleRead(f"{', '.join(stale)} has staged changes: {sql[:300]}")
        return execute(sql, params, many, context)

    with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(check):
        patch.setattr(UnitOfWork, "query", note_exemption)
        yield
