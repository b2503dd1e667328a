"""Concurrent runners: one of them runs each gate, one of them commits each patch."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.executors.support import gate, patch, reload
from tests.executors.test_kill import ROOT, environment  # noqa: F401 - a fixture
from tests.executors.work_tree import diff_adding, diff_replacing
from tests.support.waiting import until

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db(transaction=True)]

RUNNERS = 4
RUNNER = """
import django, pathlib, sys
django.setup()
from django.db import connection
from statecore.executors import gates, patches
connection.ensure_connection()
pathlib.Path(sys.argv[1]).touch()
while not pathlib.Path("go").exists():
    pass
print({call})
"""


def race(call: str, environment: dict[str, str], place: Path) -> list[str]:  # noqa: F811
    """Start several runners at the same moment and return what each of them printed."""
    script = RUNNER.format(call=call)
    environment["PYTHONPATH"] = str(ROOT)
    runners = [
        subprocess.Popen([sys.executable, "-c", script, f"ready-{n}"], cwd=place, env=environment,
                         stdout=subprocess.PIPE, text=True)
        for n in range(RUNNERS)
    ]  # fmt: skip
    until(lambda: len(list(place.glob("ready-*"))) == RUNNERS, timeout=60)
    (place / "go").touch()
    return [runner.communicate(timeout=120)[0].strip() for runner in runners]


def test_one_of_many_runners_runs_the_gate(environment, tmp_path) -> None:  # noqa: F811
    place = tmp_path / "race"
    place.mkdir()
    wanted = gate(f"open({str(tmp_path / 'runs')!r}, 'a').write('x')")

    printed = race(f"gates.run_gate({wanted.pk!r})", environment, place)

    assert Counter(printed) == {"True": 1, "False": RUNNERS - 1}
    assert (tmp_path / "runs").read_text() == "x"
    assert (reload(wanted).state, reload(wanted).version) == ("PASSED", 3)


def test_one_runner_at_a_time_uses_the_repository(environment, tmp_path, work_tree) -> None:  # noqa: F811
    place = tmp_path / "race"
    place.mkdir()
    entries = [patch(diff_replacing("two", "zwei")), *(patch(diff_adding(f"{n}.txt")) for n in range(3))]

    printed = race("sum(patches.run_due(wait=0) for _ in range(20))", environment, place)

    assert sum(map(int, printed)) == len(entries)
    assert {reload(entry).state for entry in entries} == {"committed"}
    assert (len(work_tree.log()), work_tree.is_clean()) == (len(entries) + 1, True)
