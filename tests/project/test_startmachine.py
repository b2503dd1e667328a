"""`startmachine` writes a package that works as it is: checks, migration and its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.site import ROOT

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.starts_processes]


def manage(folder: Path, *words: str, apps: str = "") -> str:
    others = ("DATABASE_URL", "REDIS_URL")
    environ = {name: value for name, value in os.environ.items() if name not in others}
    environ |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "client")]), "STATECORE_APPS": apps}
    environ["STATECORE_HOME"] = str(folder / "home")
    command = [sys.executable, "-m", "statecore.project.manage", *words]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_written_package_passes_its_checks_and_tests(tmp_path: Path) -> None:
    manage(tmp_path, "startmachine", "code_review")
    package, app = tmp_path / "code_review", "code_review.apps.CodeReviewConfig"

    assert "No changes detected" in manage(package, "makemigrations", "--check", "--dry-run", apps=app)
    assert "Ran 2 tests" in manage(package, "test", "tests", apps=app)
    assert "code_review" in manage(package, "machines", apps=app)
    assert (package / "pyproject.toml").exists()
    assert "code-reviews" in (package / "code_review" / "models.py").read_text()
