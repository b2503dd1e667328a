"""What the first schema was filled with is there under the newest, verifies, and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.databases import fresh_url
from tests.upgrade import filled

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("order", ["fill, then migrate", "migrate, then fill as the previous version would"])
def test_a_database_of_the_first_schema_is_upgraded(tmp_path: Path, order: str) -> None:
    """The second order is the hour in which both versions run: the old one writes to the new schema."""
    environ = {**os.environ, "DATABASE_URL": fresh_url(tmp_path), "STATECORE_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.upgrade.filled", order],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr

    told = json.loads(ended.stdout.splitlines()[-1])
    assert told == {"filled": sum(map(len, filled.rows().values())), "errors": [], "goes_on": True}
    assert len(filled.rows()["Event"]) > 500
