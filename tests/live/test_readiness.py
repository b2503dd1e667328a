"""Whether a server can work, asked while it has lost its database."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support import postgres
from tests.support.web import running

PROBE_SECONDS = 4.0  # as long as those of deploy/ wait


def test_a_server_whose_database_is_away_says_so_before_a_probe_gives_up(home: Path, redis_server: str) -> None:
    """A pool would wait for it, and each check once more."""
    with (
        postgres.mortal() as database,
        running(home, REDIS_URL=redis_server, DATABASE_URL=database.url) as web,
    ):
        database.kill()
        answer = httpx.get(f"{web.url}/readyz", timeout=PROBE_SECONDS)

        assert answer.status_code == 503
        assert answer.json()["failed"] == ["database", "migrations", "sequencer"]
        database.start()
