"""Machines that are started at the same moment, each of which migrates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from statecore.kernel import file_lock
from statecore.project import migrating
from statecore.project.environment import ROOT
from statecore.project.refusal import Refused
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


@contextmanager
def another_migrates() -> Iterator[None]:
    if connection.vendor != "postgresql":
        with file_lock.held(settings.STATECORE_HOME / "migrate.lock"):
            yield
        return
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [migrating.ADVISORY_KEY])
        yield
    finally:
        other.close()


@pytest.mark.django_db(transaction=True)
def test_who_is_told_to_stop_waits_no_longer() -> None:
    with another_migrates(), pytest.raises(Refused, match="another process"), migrating.alone(lambda: True):
        pytest.fail("two migrate at once")
    with migrating.alone(lambda: True):
        pass
