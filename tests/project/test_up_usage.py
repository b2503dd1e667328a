"""The arguments of scripts/up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.site import ROOT

pytestmark = pytest.mark.once_on("sqlite")


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("-h", 0), ("--no-such-option", 2)])
def test_an_argument_prints_the_usage_and_starts_nothing(tmp_path: Path, argument: str, code: int) -> None:
    (tmp_path / "scripts").mkdir()  # with nothing that the script could start
    script = shutil.copy(ROOT / "scripts" / "up", tmp_path / "scripts")

    ended = subprocess.run([script, argument], capture_output=True, text=True, check=False)

    shown, empty = (ended.stdout, ended.stderr) if code == 0 else (ended.stderr, ended.stdout)
    assert (ended.returncode, empty) == (code, "")
    assert shown.startswith("usage: scripts/up [--help]\n")
