"""A sequencer and a web server for each test. Imports inside fixtures wait until Django is set up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until


@pytest.fixture
def sequencing(home: Path, redis_server: str) -> Iterator[None]:
    from tests.support import sequencer

    with sequencer.running(home, REDIS_URL=redis_server):
        until(lambda: "sequencer_leads" in (home / "sequencer.log").read_text())
        yield


@pytest.fixture
def web(home: Path, redis_server: str, sequencing: None, db: Any) -> Iterator[Any]:
    from tests.support.web import running

    with running(home, REDIS_URL=redis_server) as server:
        yield server
