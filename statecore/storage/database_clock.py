"""The clock of the database, which every process uses for leases, heartbeats, timeouts and delays.

A process measures the difference between the clock of its host and the database's when it connects, every half minute,
and whenever the clock of its host was set. `kernel.clock.now` adds the difference, so no transition costs a query more.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import structlog
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from prometheus_client import Gauge

from ..kernel import clock

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 30.0
STEP_SECONDS = 0.1  # the clock of the host was set if it and the monotonic clock have diverged by more
LARGE_SKEW_SECONDS = 1.0
READ_SECONDS = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())::float8",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
}
RESOLUTION = {"postgresql": 0.00001, "sqlite": 0.002}

skew_seconds = Gauge(
    "statecore_clock_skew_seconds",
    "How far the clock of a process is ahead of the database's; Statecore corrects it",
    multiprocess_mode="liveall",
)

# Tests shift the clock of their process, and switch this off.
is_followed = True
_next_measurement = 0.0
_skew = 0.0
_started_at = 0.0  # the time by the host's clock at which its monotonic clock was 0


def follow(connection: BaseDatabaseWrapper) -> None:
    """Measure the difference if it is due; called before each transaction."""
    if not is_followed:
        return
    is_due = time.monotonic() >= _next_measurement
    if is_due or abs(time.time() - time.monotonic() - _started_at) > STEP_SECONDS:
        measure(connection)


def measure(connection: BaseDatabaseWrapper) -> None:
    """Read the database's clock and set the difference that `clock.now` adds.

    A difference within the error of the measurement is ignored, so that the processes of one host agree exactly.
    """
    global _next_measurement, _skew, _started_at
    before = time.time()
    difference = read_seconds(connection) - before
    took = time.time() - before
    difference -= took / 2
    is_certain = abs(difference) > took / 2 + RESOLUTION[connection.vendor]
    clock.set_offset(timedelta(seconds=difference if is_certain else 0.0))
    _next_measurement, _started_at = time.monotonic() + REFRESH_SECONDS, time.time() - time.monotonic()
    _skew = -difference
    skew_seconds.set(_skew)
    if abs(difference) > LARGE_SKEW_SECONDS + took:
        log.warning("clock_skew", seconds=round(-difference, 3))


def get_skew() -> float:
    """Returns how far the clock of this host was ahead of the database's when it was last measured, in seconds."""
    return _skew


def read_seconds(connection: BaseDatabaseWrapper) -> float:
    """Returns the database's time in seconds since 1970; past Django's cursors, which log and count statements."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        return float(connection.connection.execute(READ_SECONDS[connection.vendor]).fetchone()[0])


def _follow_new_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.alias == DEFAULT_DB_ALIAS:
        follow(connection)


connection_created.connect(_follow_new_connection)
