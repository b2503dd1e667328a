"""Queries whose plan does not depend on statistics, which are missing for a new table and outdated after a bulk change.

PostgreSQL trusts its statistics: if they claim that nearly every row matches, it reads the whole table. A sweep that
runs every minute must not depend on when the tables were last analyzed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.models import Case, Q, Value, When


def without_index(condition: Q) -> Case:
    """Returns the condition in a form that matches no index, so that the other conditions choose the index.

    Within a CASE the conditions are evaluated in the order they are written: put the cheap ones first.
    """
    return Case(When(condition, then=Value(value=True)), default=Value(value=False))


@contextmanager
def reading_by_index() -> Iterator[None]:
    """Runs the queries of the block without a sort and without reading a whole table, where an index allows that.

    The block must only read: its transaction is rolled back, which resets the settings.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true)")
        yield
        transaction.set_rollback(True)
