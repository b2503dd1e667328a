"""Rehearses the loss of the host: restores the newest export into a temporary database, and reports what is lost.

A separate process with another DATABASE_URL runs the restore, as on a new host.
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

from django.conf import settings
from django.db import DatabaseError, connection

from ...journal import Event
from ...journal.archive import get_last_archived_position
from ...kernel.clock import now
from .export import export
from .manifest import Manifest, list_exports


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


def _count_all_events() -> int:
    """Counts all events, including the archived ones."""
    return get_last_archived_position() + Event.objects.count()


@contextmanager
def _create_temporary_database(into: str) -> Iterator[str]:
    """Yields the URL of an empty database and deletes it afterwards. A database that the caller names is kept."""
    if into:
        yield into
    elif connection.vendor == "sqlite":
        with tempfile.TemporaryDirectory(prefix="statecore-drill-") as folder:
            yield f"sqlite:///{quote(folder)}/drill.sqlite3"
    else:
        name = f"statecore_drill_{os.getpid()}_{uuid.uuid4().hex}"
        _execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
        finally:
            _execute(f"DROP DATABASE {name} WITH (FORCE)")


def _execute(statement: str) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    except DatabaseError as error:
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
