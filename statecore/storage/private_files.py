"""The files that only the user of Statecore may read: the database, keys, the journal and its copies.

New files are private because settings.py sets the umask. Files of an earlier version are made private at start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

OTHERS = 0o077
NAMES = ("secrets.json", "journal.key", "checkpoint", "transitions.jsonl", "celerybeat-schedule")
FOLDERS = ("archive", "artifacts", "checkouts", "metrics")


def find_exposed() -> list[Path]:
    """Returns the private files and folders that exist and that other users may read or change."""
    return [path for path in _list_private() if _mode(path) & OTHERS]


def make_private() -> None:
    """Take away the rights of others.

    Directories that the settings name stay as they are, because others may use them too, as do files of another owner:
    `doctor` reports both.
    """
    for path in find_exposed():
        with suppress(PermissionError):
            if path not in _list_named():
                path.chmod(_mode(path) & ~OTHERS)


def _list_private() -> Iterator[Path]:
    yield from _list_named()
    yield from (settings.STATECORE_HOME / name for name in (*NAMES, *FOLDERS))
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        # SQLite gives its other files the mode of the database.
        yield from (Path(f"{database['NAME']}{suffix}") for suffix in ("", "-wal", "-shm"))


def _list_named() -> list[Path]:
    named = (settings.STATECORE_HOME, settings.STATECORE_BACKUP_DIR, settings.STATECORE_ARCHIVE_DIR)
    return list(dict.fromkeys(named))


def _mode(path: Path) -> int:
    """Returns the permissions of a file; none if it does not exist or cannot be read."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0
