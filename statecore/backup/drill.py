"""The disaster, rehearsed: the newest export is restored into a database that is thrown away afterwards.

What restores is another process with another DATABASE_URL, as it would be on another machine; it keeps only what
verifies. What is in the journal by then and not in the export is what such a day would cost.
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

from ..journal import Event
from ..kernel.clock import now
from ..records.retirement import horizon
from .exporting import export
from .manifest import Manifest, exports


class DrillFailed(Exception):
    """There is nothing to restore, no place for it, or what is there does not verify."""


@dataclass(frozen=True, slots=True)
class Drill:
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


def drill(folder: Path, *, first_export: bool = True, into: str = "") -> Drill:
    """Export, unless what is there is to be tried; restore; compare with the journal as it is then."""
    began = time.monotonic()
    newest = export(folder) if first_export else next(iter(exports(folder)[::-1]), None)
    if newest is None:
        raise DrillFailed(f"there is no export in {folder}")
    exported = time.monotonic()
    with _throw_away(into) as url:
        _manage(url, "migrate", "--verbosity=0", "--no-input")
        _manage(url, "restore", str(newest))
    manifest = Manifest.read(newest)
    restored = manifest.last_position - manifest.retired + manifest.waiting
    return Drill(
        export=newest.name,
        made_at=manifest.made_at,
        export_seconds=exported - began if first_export else None,
        restore_seconds=time.monotonic() - exported,
        position=manifest.last_position,
        events=restored,
        rows=sum(facts["rows"] for name, facts in manifest.files.items() if name.startswith("statecore_")),
        lost_events=(lost := _written() - manifest.last_position - manifest.waiting),
        lost_seconds=(now() - datetime.fromisoformat(manifest.made_at)).total_seconds() if lost else 0.0,
    )


def _written() -> int:
    """All events there ever were, the retired ones included."""
    return horizon() + Event.objects.count()


@contextmanager
def _throw_away(into: str) -> Iterator[str]:
    """An empty database, gone afterwards; one that was given is the giver's to throw away."""
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
        said = str(error).strip().splitlines()[0]
        raise DrillFailed(f"{said}: give it an empty database with --into, or the right to make one") from error


def _manage(url: str, *words: str) -> None:
    """In a home of its own: nothing of this installation is touched."""
    with tempfile.TemporaryDirectory(prefix="statecore-drill-") as home:
        environ = {**os.environ, "DATABASE_URL": url, "STATECORE_HOME": home, "STATECORE_LOG_LEVEL": "ERROR"}
        command = [sys.executable, str(settings.ROOT / "manage.py"), *words]
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=settings.ROOT)
    if ended.returncode:
        lines = (ended.stderr or ended.stdout).strip().splitlines() or ["no reason was given"]
        raise DrillFailed(f"{words[0]}: {lines[-1]}")
