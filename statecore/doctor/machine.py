"""The machine: Python, packages, the home and the room on its disks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from django.conf import settings
from packaging.requirements import InvalidRequirement, Requirement

from .finding import Finding, fine, warn, wrong

OLDEST = (3, 11)
LOCK = "requirements.lock"
MEBI = 1 << 20
LITTLE, HARDLY_ANY = 2_048 * MEBI, 256 * MEBI


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST:
        yield wrong(f"Python {version}", "run it with Python 3.11 or later")
    else:
        yield fine(f"Python {version} in {sys.prefix}")


def packages() -> Iterator[Finding]:
    """Those that are installed against those that were tested together."""
    path = settings.ROOT / LOCK
    if not path.exists():
        yield warn(f"there is no {LOCK} to compare with", "install from a release, with its lock file")
        return
    named = [asked for line in path.read_text().splitlines() if (asked := _requirement(line))]
    others = [f"{asked.name} {found or 'missing'}" for asked in named if (found := _differs(asked)) is not None]
    if others:
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        yield warn(f"not as locked: {shown}", f"scripts/venv {LOCK}, then restart every process")
    else:
        yield fine(f"{len(named)} packages as locked")


def _requirement(line: str) -> Requirement | None:
    if "==" not in line or line.startswith((" ", "#")):
        return None
    try:
        asked = Requirement(line.rstrip("\\ "))
    except InvalidRequirement:
        return None
    return asked if asked.marker is None or asked.marker.evaluate() else None


def _differs(asked: Requirement) -> str | None:
    """The version that is there instead, empty where there is none; None where it is the right one."""
    try:
        found = metadata.version(asked.name)
    except metadata.PackageNotFoundError:
        return ""
    return None if asked.specifier.contains(found, prereleases=True) else found


def home() -> Iterator[Finding]:
    path: Path = settings.STATECORE_HOME
    if not path.is_dir():
        yield wrong(f"{path} is not there", "set STATECORE_HOME to a folder that this user may write to")
    elif not os.access(path, os.W_OK | os.X_OK):
        yield wrong(f"{path} cannot be written to", "give it to the user that Statecore runs as")
    elif path.stat().st_mode & 0o077:
        yield warn(f"{path} is open to other users", f"chmod 700 {path}: the secret key may be in it")
    else:
        yield fine(str(path))


def disk() -> Iterator[Finding]:
    folders = {"home": settings.STATECORE_HOME, "backups": settings.STATECORE_BACKUP_DIR}
    for what, folder in folders.items():
        there = next((path for path in (folder, *folder.parents) if path.exists()), None)
        if there is not None:
            yield _room(what, shutil.disk_usage(there).free)


def _room(what: str, free: int) -> Finding:
    says = f"{what}: {free // MEBI} MiB free"
    if free < HARDLY_ANY:
        return wrong(says, "make room now: without it neither the journal file nor an export can be written")
    return warn(says, "make room soon") if free < LITTLE else fine(says)
