"""A filled database of the first schema is upgraded, verifies and accepts new events."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.databases import create_database
from tests.upgrade import filled

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("order", ["fill, then migrate", "migrate, then fill as the previous version would"])
def test_a_database_of_the_first_schema_is_upgraded(tmp_path: Path, order: str) -> None:
    """In the second order, the old version writes to the new schema, as in a rolling upgrade."""
    environ = {**os.environ, "DATABASE_URL": create_database(tmp_path), "STATECORE_HOME": str(tmp_path / "home")}
    ended = forked.run(
        [sys.executable, "-m", "tests.upgrade.filled", order],
        cwd=ROOT,
        env=environ,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr

    report = json.loads(ended.stdout.splitlines()[-1])
    assert report == {"filled": sum(map(len, filled.rows().values())), "errors": [], "continues": True}
    assert len(filled.rows()["Event"]) > 500
