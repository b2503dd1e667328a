"""Several hosts that migrate at the same time."""

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

from statecore.project import migration_lock
from statecore.project.refusal import Refused
from statecore.storage import files
from tests.support import databases
from tests.support.site import ROOT


def test_concurrent_preparations_all_succeed(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "DATABASE_URL": databases.create_database(tmp_path),
        "STATECORE_HOME": str(tmp_path / "home"),
    }
    command = [sys.executable, "-m", "statecore.project.process", "prepare"]
    preparing = [subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate(timeout=300)[1] for process in preparing]

    assert [process.returncode for process in preparing] == [0, 0, 0], errors


@contextmanager
def another_process_migrates() -> Iterator[None]:
    if connection.vendor != "postgresql":
        with files.hold_lock(settings.STATECORE_HOME / "migrate.lock"):
            yield
        return
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [migration_lock.ADVISORY_KEY])
            yield
            # Closing the connection would release the lock a moment later.
            cursor.execute("SELECT pg_advisory_unlock(%s)", [migration_lock.ADVISORY_KEY])
    finally:
        other.close()


@pytest.mark.django_db(transaction=True)
def test_a_stopped_process_does_not_wait_for_the_migration_lock() -> None:
    with another_process_migrates(), pytest.raises(Refused, match="another process"), migration_lock.hold(lambda: True):
        pytest.fail("two processes migrate at the same time")
    with migration_lock.hold(lambda: True):
        pass
