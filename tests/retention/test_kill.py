"""Killed at any moment, nothing is lost, and whoever comes next goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from statecore import integrity
from statecore.journal import Event
from statecore.records import Position, Retirement
from statecore.records.retirement import horizon
from statecore.sinks import counters
from tests.retention.past import Past, retired
from tests.retention.victim import MOMENTS
from tests.support.sequencer import ROOT, database_url

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_it_lost_nothing_and_goes_on(past: Past, home: Path, moment: str) -> None:
    written, stays = Event.objects.count(), Event.objects.count() - past.upto

    ended = subprocess.run(
        [sys.executable, "-m", "tests.retention.victim", moment], cwd=ROOT, timeout=60, check=False,
        env={**os.environ, "DATABASE_URL": database_url(), "STATECORE_HOME": str(home),
             "STATECORE_RETIRED_DIR": str(past.folder())},
    )  # fmt: skip

    assert ended.returncode == -signal.SIGKILL
    assert horizon() == (5 if moment == "in the second stride" else 0)
    assert Event.objects.count() == Position.objects.count() == written - horizon()
    assert integrity.check_all(past.folder()) == []

    retired(most=5)

    assert (horizon(), Event.objects.count()) == (past.upto, stays)
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []
    names = {path.name for path in past.folder().iterdir() if path.suffix == ".gz"}
    assert names == set(Retirement.objects.values_list("file", flat=True))
