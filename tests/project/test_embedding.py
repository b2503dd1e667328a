"""Statecore as one application of a project that has other settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.support.site import ROOT

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.starts_processes]

CHANGE = """
from statecore import transitions
from statecore.framework.extensions import SYSTEM_ACTOR
from statecore.machines.ingestion_job import IngestionJob
transitions.create(IngestionJob, id="i1", actor=SYSTEM_ACTOR)
try:
    IngestionJob.objects.update(state="completed")
except Exception as refusal:
    print(type(refusal).__name__)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    call_command("startproject", "shop", str(tmp_path))
    with (tmp_path / "shop" / "settings.py").open("a") as file:
        file.write('INSTALLED_APPS += ["statecore"]\n')
    return tmp_path


def manage(project: Path, *words: str) -> str:
    others = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
    environ = {name: value for name, value in os.environ.items() if name not in others}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "client")])
    command = [sys.executable, "manage.py", *words]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_line_in_the_settings_of_a_project_is_enough(project: Path) -> None:
    assert "no issues" in manage(project, "check")
    assert "No changes detected" in manage(project, "makemigrations", "--check", "--dry-run")
    manage(project, "migrate", "--verbosity=0")

    # The triggers protect its tables, and the journal verifies.
    assert manage(project, "shell", "--verbosity=0", "--command", CHANGE) == "IntegrityError\n"
    assert manage(project, "integrity") == "0 errors, 0 warnings\n"
