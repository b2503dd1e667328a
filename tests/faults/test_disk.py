"""A disk that is full, a database that another program locks, and a copy of a database that is in use."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from statecore.operations import integrity
from tests.faults.installation import Installation, running
from tests.project.test_supervisor import Site
from tests.support.databases import pointed_at

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.slow]


MOUNT, UMOUNT = (shutil.which(name) or name for name in ("mount", "umount"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB."""
    (folder := tmp_path / "disk").mkdir()
    if subprocess.run([MOUNT, "-t", "tmpfs", "-o", "size=48m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run([UMOUNT, "--lazy", folder], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 20
        while size >= 1 << 12:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Another program holds the write lock for longer than a process waits for it."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def expect_a_clean_refusal_of_an_export(installation: Installation) -> None:
    ended = installation.manage("export")
    assert ended.returncode != 0
    assert "the disk of the database is full" in ended.stderr
    assert not list(installation.home.glob("backup/export-*"))


def expect_a_copy_to_verify(database: Path, copy: Path) -> None:
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    with pointed_at(f"sqlite:///{copy}"):
        assert integrity.check_all() == []


def test_a_full_disk_and_a_locked_database_are_named_and_nothing_is_lost(
    small_disk: Path, tmp_path: Path, django_db_blocker: Any, django_db_setup: None
) -> None:
    site = Site(small_disk, migrated=True)
    site.log = tmp_path / "up.log"
    site.variables["STATECORE_ALERTS"] = "disk_free_mb=1"  # the disk has less than what is usually too little
    database = Path(site.variables["DATABASE_URL"].removeprefix("sqlite:///"))
    with (
        django_db_blocker.unblock(),
        pointed_at(site.variables["DATABASE_URL"]),
        running(site, tmp_path) as installation,
    ):
        with installation.working("copied"):
            expect_a_copy_to_verify(database, tmp_path / "copy.sqlite3")
        with installation.working("full"), full(small_disk):
            installation.await_shown("writes", "full")
            expect_a_clean_refusal_of_an_export(installation)
        installation.meet("locked", lambda: locked(database), "writes", "locked")
        installation.expect_everything_done_once()
