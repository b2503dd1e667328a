"""Schemathesis: every response matches the schema, for valid and invalid requests and for sequences of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from statecore.api.openapi.views import build_document
from tests.api import server
from tests.api.callers import Caller
from tests.support import world
from tests.support.site import ROOT

# On one database: other tests cover the differences.
pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

# The configuration sets the number of examples and lists the exceptions with their reasons.
CONFIG = Path(__file__).parent / "schemathesis.toml"
PHASES = ("coverage", "fuzzing", "stateful")
# Optional long runs: this many examples per operation, and the boundary values of every schema.
EXAMPLES = os.environ.get("STATECORE_TEST_EXAMPLES", "")
EDGES = os.environ.get("STATECORE_TEST_EDGES") == "1"
LONGEST = 6 * 3600 if EXAMPLES or EDGES else 300


def configuration(folder: Path) -> Path:
    text = CONFIG.read_text()
    if EXAMPLES:
        text = re.sub(r"max-examples = \d+", f"max-examples = {int(EXAMPLES)}", text)
    if EDGES:
        text = text.replace("phases.coverage.enabled = false", "phases.coverage.enabled = true")
    (folder / CONFIG.name).write_text(text)
    return folder / CONFIG.name


def test_every_response_matches_the_schema(redis_server: str, tmp_path: Path) -> None:
    """Deterministic: a failure repeats on the next run."""
    caller = Caller("override")
    world.queued_task()
    with server.running(redis_server, tmp_path / "server.log") as address:
        made = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration(tmp_path))),
                *("run", f"{address}/api/v1/schema/", "--checks", "all", "--phases", ",".join(PHASES)),
                *("-H", f"Authorization: Bearer {caller.text}", "--generation-deterministic", "--no-color"),
            ],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    # The failures come first, followed by pages of advice.
    assert made.returncode == 0, made.stdout.partition("= FAILURES =")[2][:8000] or made.stdout[-8000:] + made.stderr
    every = sum(len(methods) for methods in build_document()["paths"].values())
    assert re.search(rf"Tested: +{every}\n", made.stdout), made.stdout[-2000:]
    for phase in PHASES:
        assert f"✅ {phase.title()}" in made.stdout, made.stdout[-2000:]
