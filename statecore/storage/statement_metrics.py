"""Metrics of every SQL statement: its time, for the request that it belongs to, its errors, and waits for locks."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from time import perf_counter
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from prometheus_client import Counter, Histogram

from ..kernel import spans

BEGIN = "BEGIN"
MAX_STATEMENT = 2_000  # characters of a statement in a span
LOCK_BUCKETS = (0.01, 0.1, 1, 10)

errors_total = Counter(
    "statecore_database_errors_total",
    "Statements that failed, by SQLSTATE on PostgreSQL and error name on SQLite",
    ["error"],
)
connections_total = Counter("statecore_database_connections_opened_total", "Connections to the database opened")
lock_wait_seconds = Histogram(
    "statecore_database_lock_wait_seconds", "Time for which a transaction on SQLite waited for the write lock",
    buckets=LOCK_BUCKETS,
)  # fmt: skip
_errors = cache(errors_total.labels)


class Statements:
    """The statements of one request: their number and time."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0


_current: ContextVar[Statements | None] = ContextVar("statements", default=None)


def collect() -> Statements:
    """Returns the object in which the statements of this request are counted, from now on."""
    statements = Statements()
    _current.set(statements)
    return statements


def measure(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    begun = perf_counter()
    try:
        if spans.tracer is None:
            return execute(sql, params, many, context)
        # The statement without its parameters, which may contain private data.
        with spans.span(f"SQL {sql.split(maxsplit=1)[0]}", **{"db.query.text": sql[:MAX_STATEMENT]}):
            return execute(sql, params, many, context)
    except Exception as error:
        _errors(find_code(error)).inc()
        raise
    finally:
        _note(sql, perf_counter() - begun, context)


def _note(sql: str, seconds: float, context: dict[str, Any]) -> None:
    statements = _current.get()
    if statements is not None:
        statements.count += 1
        statements.seconds += seconds
    # SQLite takes its only write lock at the beginning of a transaction.
    if context["connection"].vendor == "sqlite" and sql.startswith(BEGIN):
        lock_wait_seconds.observe(seconds)


def find_code(error: BaseException) -> str:
    """The code of the database's manual; the name of the class for an error of the driver itself."""
    cause = error.__cause__ or error
    return str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or type(cause).__name__)


def _measure_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    connections_total.inc()
    if measure not in connection.execute_wrappers:
        connection.execute_wrappers.append(measure)


connection_created.connect(_measure_connection)
