"""`transitions.jsonl` in the home: one line per event, in the order of positions, with no gap and no duplicate.

Each batch is on the disk (fdatasync) before the cursor moves, so that up to the cursor the file is whole whatever
happens. Behind it the file may be ahead, or torn by a crash: recovery looks at the file's own tail, cuts off what is
not a whole line in order, and goes on after the last that is. A file that was taken away is written anew.
"""

from __future__ import annotations

import fcntl
import os
from io import BufferedRandom
from typing import Any

import orjson
from django.conf import settings

from ..records.position import Position
from .numbered import Batch
from .sink import Sink

BLOCK = 65_536


class FileDisagrees(RuntimeError):
    """The file tells of positions that the database knows nothing of, or knows otherwise."""


class JournalFile(Sink):
    name = "journal_file"

    def __init__(self) -> None:
        self.file: BufferedRandom | None = None

    def recover(self, cursor: int) -> int:
        self.close()
        path = settings.STATECORE_HOME / "transitions.jsonl"
        path.touch(mode=0o600)
        self.file = path.open("r+b")
        # Held by the file itself: a leader that does not know yet that it is none cannot write beside its successor.
        fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        last, end = _tail(self.file, cursor)
        if last and not Position.objects.filter(position=last["position"], event=last["event_id"]).exists():
            raise FileDisagrees(f"{path} ends with position {last['position']}, which the database does not have so")
        self.file.truncate(end)
        self.file.seek(end)
        return int(last["position"]) if last else 0

    def deliver(self, batch: Batch) -> None:
        assert self.file is not None  # noqa: S101 - recover() comes first
        lines = [{"position": event.position, **event.told} for event in batch]
        self.file.write(b"".join([orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines]))
        self.file.flush()
        os.fdatasync(self.file.fileno())

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def _tail(file: BufferedRandom, cursor: int) -> tuple[dict[str, Any] | None, int]:
    """The last line up to which the file is in order, and where it ends. Up to the cursor it is known to be."""
    start = _start_of_a_line_up_to(file, cursor)
    last, end = None, start
    file.seek(start)
    for line in file:
        told = _parsed(line)
        follows = last["position"] + 1 if last else (told or {}).get("position") if start else 1
        if told is None or told["position"] != follows:
            break
        last, end = told, end + len(line)
    return last, end


def _start_of_a_line_up_to(file: BufferedRandom, cursor: int) -> int:
    """Going back from the end in ever longer strides; 0 when there is no such line."""
    stride, size = BLOCK, file.seek(0, os.SEEK_END)
    while stride < size:
        file.seek(size - stride)
        file.readline()  # the rest of a line
        start = file.tell()
        told = _parsed(file.readline())
        if told is not None and told["position"] <= cursor:
            return start
        stride *= 2
    return 0


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return told if isinstance(told, dict) and isinstance(told.get("position"), int) else None
