"""The schema is true: what schemathesis makes of it, right or wrong, alone or in rows, is answered as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from api.openapi.views import document
from tests.api import server
from tests.api.callers import Caller
from tests.support import world

# On one database: what differs between them is looked at elsewhere.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

# How much is tried, and which exceptions there are, stands in the configuration with the reasons.
CONFIG = Path(__file__).parent / "schemathesis.toml"
PHASES = ("coverage", "fuzzing", "stateful")
LONGEST = 300


def test_every_answer_is_as_the_schema_says(redis_server: str, tmp_path: Path) -> None:
    """Deterministic: what is found once is found again."""
    caller = Caller("override")
    world.queued_task()
    with server.running(redis_server, tmp_path / "server.log") as address:
        made = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
                *("run", f"{address}/api/v1/schema/", "--checks", "all", "--phases", ",".join(PHASES)),
                *("-H", f"Authorization: Bearer {caller.text}", "--generation-deterministic", "--no-color"),
            ],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            cwd=tmp_path,
            check=False,
        )
    assert made.returncode == 0, made.stdout[-8000:] + made.stderr[-2000:]
    every = sum(len(methods) for methods in document()["paths"].values())
    assert re.search(rf"Tested: +{every}\n", made.stdout), made.stdout[-2000:]
    for phase in PHASES:
        assert f"✅ {phase.title()}" in made.stdout, made.stdout[-2000:]
