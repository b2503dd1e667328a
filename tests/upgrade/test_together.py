"""Machines that are started at the same moment, each of which migrates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from statecore.project.environment import ROOT
from tests.support import databases


def test_all_who_prepare_at_once_find_it_done(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "DATABASE_URL": databases.fresh_url(tmp_path),
        "STATECORE_HOME": str(tmp_path / "home"),
    }
    command = [sys.executable, "-m", "statecore.project.process", "prepare"]
    preparing = [subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=300)[1] for process in preparing]

    assert [process.returncode for process in preparing] == [0, 0, 0], said
