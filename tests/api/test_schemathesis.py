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

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = Path(__file__).parent / "schemathesis.toml"
# The same every time: what is found once is found again.
FIXED = ("--generation-deterministic", "--no-color")
LONGEST = 300
# Every call gets a few examples, and rows of calls that follow from each other. What stands at the edge of each schema
# is tried with one machine of many fields and with all that is no machine's: the others are served by the same code.
PLACES = "tasks|phases|diffs|bulk-jobs|events|alerts|stuck|stats|machines|overrides|audit"
EDGES = rf"/({PLACES})/|/checkpoints/|/(acquire|claim)/"


def run(address: str, caller: Caller, folder: Path, *options: str) -> str:
    made = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
            *("run", f"{address}/api/v1/schema/", "--checks", "all", *FIXED),
            *("-H", f"Authorization: Bearer {caller.text}", *options),
        ],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        cwd=folder,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-8000:] + made.stderr[-2000:]
    return made.stdout


def count_in(said: str) -> int:
    found = re.search(r"Tested: +(\d+)", said)
    assert found, said[-2000:]
    return int(found[1])


def test_every_answer_is_as_the_schema_says(redis_server: str, tmp_path: Path) -> None:
    caller = Caller("override")
    world.queued_task()
    every = sum(len(methods) for methods in document()["paths"].values())
    with server.running(redis_server, tmp_path / "server.log") as address:
        said = run(address, caller, tmp_path, "--phases", "fuzzing,stateful", "--max-examples", "2")
        assert count_in(said) == every
        assert re.search(r"✅ Stateful", said), said
        run(address, caller, tmp_path, "--phases", "coverage", "--include-path-regex", EDGES)
