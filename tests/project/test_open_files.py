"""A web process keeps as few files and connections open after many requests as after a few."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support import web

pytestmark = pytest.mark.django_db(transaction=True)


def test_requests_leave_no_connection_open(tmp_path: Path, redis_server: str) -> None:
    with (
        web.running(tmp_path, REDIS_URL=redis_server) as running,
        httpx.Client(base_url=running.url, headers=web.bearer()) as caller,
    ):
        counts = []
        for _round in range(2):
            for _request in range(30):
                assert caller.get("/api/v1/stats/").status_code == 200
            counts.append(len(list(Path(f"/proc/{running.process.pid}/fd").iterdir())))
    assert counts[1] <= counts[0] + 5
