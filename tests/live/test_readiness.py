"""The readiness probe while the database is down."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support import postgres
from tests.support.web import running

PROBE_SECONDS = 4.0  # the probe timeout in deploy/


def test_readyz_reports_a_lost_database_before_the_probe_times_out(home: Path, redis_server: str) -> None:
    """A connection pool would wait for the database, once for each check."""
    with (
        postgres.mortal() as database,
        running(home, REDIS_URL=redis_server, DATABASE_URL=database.url) as web,
    ):
        database.kill()
        answer = httpx.get(f"{web.url}/readyz", timeout=PROBE_SECONDS)

        assert answer.status_code == 503
        expected = ["database", "migrations", "processes", "leader", "sequencer", "system", "integrity"]
        assert answer.json()["failed"] == expected
        database.start()
