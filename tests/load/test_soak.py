"""A one-minute soak test: every process of an installation is killed while agents work."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import scenario
from tests.deploy.topology import NGINX, OPENSSL

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (NGINX and OPENSSL), reason="nginx and openssl are needed")]


def test_killing_any_process_loses_no_work_and_repeats_none(tmp_path: Path) -> None:
    """`python -m benchmarks.soak` runs the full hour."""
    result = scenario.run(tmp_path, scenario.Load(minutes=1, pace=2, agents=6, fault_every=2), durable=False)

    assert {name: number for name, number in result.violations.items() if number} == {}, result.recorded["findings"]
    assert set(result.faults) >= {"postgresql", "redis", "nginx", "statecore-rest", "statecore-sequencer"}
    assert len(result.recorded["tasks"]) == 60
