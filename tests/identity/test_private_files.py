"""The database, keys and the journal can be read by their owner only."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statecore.storage import private_files
from tests.doctor.results import get_problem, passes
from tests.support.sequencer import ROOT

START = """
import django; django.setup()
from django.contrib.auth.models import User
from statecore.project import startup
from statecore.journal import signing
startup.migrate()
User.objects.create_user("ada")
from tests.support.sequencer import sign
from statecore.delivery.sinks.journal_file import JournalFile
from tests.support.sequencer import catch_up
sign()
catch_up(JournalFile())
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.once_on("sqlite")
def test_a_new_installation_creates_private_files_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "home"
    database = tmp_path / "elsewhere.sqlite3"
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("STATECORE_")},
        "STATECORE_HOME": str(home),
        "DATABASE_URL": f"sqlite:///{database}",
        "DJANGO_SETTINGS_MODULE": "statecore.project.settings",
    }
    subprocess.run([sys.executable, "-c", START], cwd=ROOT, env=environ, umask=0o000, check=True, timeout=120)
    found = [path for path in (home, *home.rglob("*"), database) if not path.is_socket()]
    assert {path.name for path in found} >= {"secrets.json", "journal.key", "checkpoint", "transitions.jsonl"}
    assert {path.name: oct(mode(path)) for path in found if mode(path) & 0o077} == {}


@pytest.fixture
def installation(home: Path, settings: Any) -> Path:
    settings.STATECORE_BACKUP_DIR = settings.STATECORE_ARCHIVE_DIR = home / "backup"
    for name in ("secrets.json", "journal.key", "transitions.jsonl"):
        (home / name).touch(0o644)
        (home / name).chmod(0o644)
    (home / "backup").mkdir(mode=0o700)
    return home


def test_files_of_an_earlier_version_are_made_private_at_start(installation: Path) -> None:
    private_files.make_private()
    assert {mode(path) for path in installation.iterdir() if path.is_file()} == {0o600}
    assert private_files.find_exposed() == []
    assert passes("home")


def test_a_folder_that_the_settings_name_is_reported_and_stays(installation: Path) -> None:
    (installation / "backup").chmod(0o755)
    private_files.make_private()
    assert mode(installation / "backup") == 0o755
    level, message = get_problem("home")
    assert (level, str(installation / "backup") in message) == ("warning", True)


def test_doctor_names_the_files_that_others_can_read(installation: Path) -> None:
    level, message = get_problem("home")
    assert level == "warning"
    assert str(installation / "secrets.json") in message


@pytest.mark.once_on("sqlite")
def test_sqlite_gives_its_other_files_the_mode_of_the_database(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    path.touch(0o600)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE t (x)")
        assert {mode(each) for each in tmp_path.iterdir()} == {0o600}
