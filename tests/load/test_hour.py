"""The load test of an hour, a minute of it: every part of an installation is killed while agents work."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hour import course
from tests.deploy.topology import NGINX, OPENSSL

pytestmark = pytest.mark.skipif(not (NGINX and OPENSSL), reason="nginx and openssl are needed")


def test_whatever_is_killed_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path) -> None:
    """`python -m benchmarks.hour` is the whole of it."""
    found = course.run(tmp_path, course.Wishes(minutes=1, pace=2, agents=6, fault_every=2), durable=False)

    assert {name: number for name, number in found.wrongs.items() if number} == {}, found.left["findings"]
    assert set(found.faults) >= {"postgresql", "redis", "nginx", "statecore-rest", "statecore-sequencer"}
    assert len(found.left["tasks"]) == 60
