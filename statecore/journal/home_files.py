"""The copies of the journal in the home directory, which a writer of the database cannot reach.

`checkpoint` is the newest signed checkpoint, `transitions.jsonl` has one line per event.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson
from django.conf import settings

from ..kernel.clock import now

CHECKPOINT_FILE = "checkpoint"
JOURNAL_FILE = "transitions.jsonl"
TAMPERED = "tampered"
BLOCK_SIZE = 65_536


def get_checkpoint_path() -> Path:
    return Path(settings.STATECORE_HOME) / CHECKPOINT_FILE


def get_journal_path() -> Path:
    return Path(settings.STATECORE_HOME) / JOURNAL_FILE


def build_aside_path(path: Path, why: str) -> Path:
    """Returns a unique name beside a file, such as `checkpoint-until-20260101T000000000000Z`."""
    return path.with_name(f"{path.stem}-{why}-{now():%Y%m%dT%H%M%S%fZ}{path.suffix}")


def build_tampered_path(path: Path) -> Path:
    """Returns the name under which a file is kept that another program has changed."""
    return build_aside_path(path, TAMPERED)


def build_lost_path(epoch: int) -> Path:
    """Returns the name of the file with the lines that the database lost when an epoch ended."""
    path = get_journal_path()
    return path.with_name(f"{path.stem}-lost-in-epoch-{epoch}{path.suffix}")


def list_tampered() -> list[Path]:
    """Returns the kept journal files that another program had changed, oldest first."""
    path = get_journal_path()
    return sorted(path.parent.glob(f"{path.stem}-{TAMPERED}-*{path.suffix}"))


def set_checkpoint_aside() -> None:
    """Renames the checkpoint, because it is signed with a key that was lost."""
    path = get_checkpoint_path()
    if path.exists():
        path.rename(build_aside_path(path, "until"))


def copy_checkpoint_aside() -> None:
    """Keeps the checkpoint under another name, because positions that it includes are lost."""
    path = get_checkpoint_path()
    shutil.copyfile(path, build_aside_path(path, "until"))


class AsideFiles(NamedTuple):
    """The new names of the two files; None for one that does not exist."""

    checkpoint: Path | None
    journal: Path | None


@contextmanager
def set_aside() -> Iterator[AsideFiles]:
    """Renames both files, because an operator restores another history; not if the block fails.

    If a file is missing, a restore that was killed may have renamed it: then this returns the one renamed last.
    """
    paths = get_checkpoint_path(), get_journal_path()
    moved = [path.rename(build_aside_path(path, "until")) if path.exists() else None for path in paths]
    try:
        yield AsideFiles(*(aside or _find_aside(path) for path, aside in zip(paths, moved, strict=True)))
    except BaseException:
        for path, aside in zip(paths, moved, strict=True):
            if aside is not None:
                aside.rename(path)
        raise


def _find_aside(path: Path) -> Path | None:
    return max(path.parent.glob(f"{path.stem}-until-*{path.suffix}"), default=None)


def find_line_before(file: BinaryIO, position: int) -> int:
    """Returns the offset of a line at or before a position, found backwards in growing steps; 0 if there is none."""
    distance, size = BLOCK_SIZE, file.seek(0, os.SEEK_END)
    while distance < size:
        file.seek(size - distance)
        file.readline()  # skip the rest of a line
        start = file.tell()
        event = parse_position_line(file.readline())
        if event is not None and event["position"] <= position:
            return start
        distance *= 2
    return 0


def parse_position_line(line: bytes) -> dict[str, Any] | None:
    """Returns the event of a line; None if the line is incomplete or not an event."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("position"), int) else None
