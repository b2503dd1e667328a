"""The schema is true: what schemathesis makes of it, right or wrong, alone or in rows, is answered as it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api import server
from tests.api.callers import Caller
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = Path(__file__).parent / "schemathesis.toml"
SECONDS = 20
# All machines are served by the same code: some of them stand for all.
CHOSEN = r"/(pipeline-jobs|tasks|workers|phases|breakers|bulk-jobs)/|/runs/submit/|/events/"


def test_every_answer_is_as_the_schema_says(redis_server: str, tmp_path: Path) -> None:
    caller = Caller("override")
    world.queued_task()
    with server.running(redis_server, tmp_path / "server.log") as address:
        made = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
                *("run", f"{address}/api/v1/schema/", "--checks", "all", "--phases", "coverage,fuzzing,stateful"),
                *("-H", f"Authorization: Bearer {caller.text}", "--include-path-regex", CHOSEN),
                *("--max-examples", "2", "--max-time", str(SECONDS), "--no-color"),
            ],
            capture_output=True,
            text=True,
            timeout=10 * SECONDS,
            cwd=tmp_path,
            check=False,
        )
    assert made.returncode == 0, made.stdout[-8000:] + made.stderr[-2000:]
    assert " passed" in made.stdout
