"""`transitions.jsonl` in the home directory: one line per event, ordered by position, without gaps or duplicates.

Each batch is on the disk (fdatasync) before the cursor moves, so the file is complete up to the cursor even after a
crash. Lines after the cursor may be missing, incomplete or damaged: recovery reads the end of the file, truncates it
after the last valid line, and continues from there. A deleted file is written again from the start. A file with events
that this database does not have, as after restoring an older backup, is renamed, and a new one is written.
"""

from __future__ import annotations

import os
from io import BufferedRandom
from pathlib import Path
from typing import Any

import orjson
import structlog

from ...journal.archive import get_last_archived_position
from ...journal.home_files import build_aside_path, get_journal_path
from ...journal.position import Position
from ...storage import files
from .sink import Batch, Sink

log = structlog.get_logger(__name__)

BLOCK_SIZE = 65_536


class JournalFile(Sink):
    name = "journal_file"

    def __init__(self) -> None:
        self.file: BufferedRandom | None = None

    def recover(self, cursor: int) -> int:
        self.close()
        path = get_journal_path()
        self.file = _open_locked(path)
        last, end = _find_last_valid_line(self.file, cursor)
        if last and not Position.objects.filter(position=last["position"], event=last.get("event_id")).exists():
            _set_aside(path, last["position"])
            self.close()
            self.file, last, end = _open_locked(path), None, 0
        self.file.truncate(end)
        self.file.seek(end)
        # A killed process may have left lines that are not on the disk yet; the cursor must not move past them.
        os.fdatasync(self.file.fileno())
        return int(last["position"]) if last else 0

    def deliver(self, batch: Batch) -> None:
        assert self.file is not None  # noqa: S101 - recover() comes first
        lines = [{"position": event.position, **event.serialized} for event in batch]
        self.file.write(b"".join([orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines]))
        self.file.flush()
        os.fdatasync(self.file.fileno())

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def _open_locked(path: Path) -> BufferedRandom:
    """Opens and locks the file, so that a former leader that has not noticed its replacement cannot write to it."""
    return os.fdopen(files.take_lock(path), "r+b")


def _set_aside(path: Path, position: int) -> None:
    """Renames the file to a unique name, so that nothing overwrites it."""
    aside = path.rename(build_aside_path(path, "until"))
    log.warning("journal_file_set_aside", last_position=position, renamed_to=str(aside))


def _find_last_valid_line(file: BufferedRandom, cursor: int) -> tuple[dict[str, Any] | None, int]:
    """Returns the last line up to which the positions are consecutive, and the offset of its end."""
    start = _find_line_before_cursor(file, cursor)
    last, end = None, start
    # The first line of the file is the first event of the journal, or the first one after the archived events.
    lowest, highest = 1, get_last_archived_position() + 1 if start == 0 else cursor
    file.seek(start)
    for line in file:
        event = _parse_line(line)
        if event is None or not lowest <= event["position"] <= highest:
            break
        lowest = highest = event["position"] + 1
        last, end = event, end + len(line)
    return last, end


def _find_line_before_cursor(file: BufferedRandom, cursor: int) -> int:
    """Returns the offset of a line at or before the cursor, found backwards in growing steps; 0 if there is none."""
    distance, size = BLOCK_SIZE, file.seek(0, os.SEEK_END)
    while distance < size:
        file.seek(size - distance)
        file.readline()  # skip the rest of a line
        start = file.tell()
        event = _parse_line(file.readline())
        if event is not None and event["position"] <= cursor:
            return start
        distance *= 2
    return 0


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Returns the event of a line; None if the line is incomplete or not an event."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("position"), int) else None
