"""Rehearses the loss of the host: restores the newest export into a temporary database, and reports what is lost.

A separate process with another DATABASE_URL runs the restore, as on a new host. The temporary database is on the server
that STATECORE_DRILL_DATABASE names, by default on that of this installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import structlog
from django.conf import settings
from django.db import Error

from ...journal import Event
from ...journal.archive import get_last_archived_position
from ...kernel.clock import now
from ...records import RestoreDrill, restore_drill
from ...storage import files
from .chain import RestoreFailed, check_files, read_chain
from .encryption import CannotOpen
from .export import export
from .manifest import Manifest, list_exports

CONNECT_SECONDS = 10
log = structlog.get_logger(__name__)


class DrillFailed(Exception):
    """There is no export, no temporary database can be created, or the export cannot be restored."""


@dataclass(frozen=True, slots=True)
class DrillReport:
    export: str
    made_at: str
    export_seconds: float | None
    restore_seconds: float
    position: int
    events: int
    rows: int
    lost_events: int
    lost_seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def drill(folder: Path, *, export_first: bool = True, into: str = "") -> DrillReport:
    """Restores a new export or, without `export_first`, the newest one, and counts the events that it lacks."""
    began = time.monotonic()
    newest = export(folder) if export_first else next(iter(list_exports(folder)[::-1]), None)
    if newest is None:
        raise DrillFailed(f"there is no export in {folder}")
    exported = time.monotonic()
    _check_chain(newest)
    with _create_temporary_database(into) as url:
        _run_manage(url, "migrate", "--verbosity=0", "--no-input")
        _run_manage(url, "restore", str(newest))
    restored = time.monotonic()
    manifest = Manifest.read(newest)
    lost_events = _count_all_events() - manifest.last_position - manifest.waiting
    return DrillReport(
        export=newest.name,
        made_at=manifest.made_at,
        export_seconds=exported - began if export_first else None,
        restore_seconds=restored - exported,
        position=manifest.last_position,
        events=manifest.last_position - manifest.archived + manifest.waiting,
        rows=sum(facts["rows"] for name, facts in manifest.files.items() if name.startswith("statecore_")),
        lost_events=lost_events,
        lost_seconds=(now() - datetime.fromisoformat(manifest.made_at)).total_seconds() if lost_events else 0.0,
    )


def _check_chain(newest: Path) -> None:
    """Finds damaged files before a database is created and migrated, which takes most of the time of a drill."""
    try:
        for each in read_chain(newest):
            check_files(each)
    except (RestoreFailed, CannotOpen) as reason:
        raise DrillFailed(f"{newest.name}: {reason}") from None


def _count_all_events() -> int:
    """Counts all events, including the archived ones."""
    return get_last_archived_position() + Event.objects.count()


@contextmanager
def _create_temporary_database(into: str) -> Iterator[str]:
    """Yields the URL of an empty database and deletes it afterwards. A database that the caller names is kept."""
    server = settings.STATECORE_DRILL_DATABASE or os.environ.get("DATABASE_URL", "")
    if into:
        yield into
    elif server.startswith("postgres"):
        name = f"statecore_drill_{os.getpid()}_{uuid.uuid4().hex}"
        _execute(server, f"CREATE DATABASE {name}")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            _execute(server, f"DROP DATABASE {name} WITH (FORCE)")
    else:
        with tempfile.TemporaryDirectory(prefix="statecore-drill-") as folder:
            yield f"sqlite:///{quote(folder)}/drill.sqlite3"


def _execute(server: str, statement: str) -> None:
    import psycopg  # not installed where SQLite is used

    try:
        with psycopg.connect(server, autocommit=True, connect_timeout=CONNECT_SECONDS) as session:
            session.execute(statement.encode())
    except psycopg.Error as error:
        message = str(error).strip().splitlines()[0]
        raise DrillFailed(f"{message}: name an empty database with --into, or grant the right to create one") from error


def _run_manage(url: str, *arguments: str) -> None:
    """Runs a management command with a temporary home, so that it does not change this installation."""
    with tempfile.TemporaryDirectory(prefix="statecore-drill-") as home:
        environ = {**os.environ, "DATABASE_URL": url, "STATECORE_HOME": home, "STATECORE_LOG_LEVEL": "ERROR"}
        # Found as by this process: its own settings and apps may be anywhere.
        environ["STATECORE_BACKUP_PASSPHRASE"] = settings.STATECORE_BACKUP_PASSPHRASE
        environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = [sys.executable, "-m", "statecore.project.manage", *arguments]
        ended = subprocess.run(command, env=environ, capture_output=True, text=True)
    if ended.returncode:
        lines = (ended.stderr or ended.stdout).strip().splitlines() or ["the command printed no reason"]
        raise DrillFailed(f"{arguments[0]}: {lines[-1]}")


def run_due_drill(folder: Path) -> RestoreDrill | None:
    """Runs the drill that is due each week, of the newest export as it is, and stores the result.

    One that failed is repeated the next day. Returns None if none is due, or if one is running.
    """
    last = restore_drill.find_last()
    if last is not None and not last.is_successor_due(now()):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with files.hold_lock(folder / ".drill.lock"):
            return _run_and_store(folder)
    except BlockingIOError:
        return None


def _run_and_store(folder: Path) -> RestoreDrill:
    record = RestoreDrill.objects.create(started_at=now())
    try:
        report = drill(folder, export_first=not list_exports(folder))
    except (DrillFailed, Error, OSError, ValueError) as error:
        log.error("restore_drill_failed", error=str(error))
        record.end(str(error) or type(error).__name__)
        return record
    record.export, record.position, record.lost_events = report.export, report.position, report.lost_events
    record.seconds = report.restore_seconds
    log.info("restore_drill_succeeded", **report.as_dict())
    record.end()
    return record
