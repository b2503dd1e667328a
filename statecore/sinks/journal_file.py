"""`transitions.jsonl` in the home: one line per event, in the order of positions, with no gap and no duplicate.

Each batch is on the disk (fdatasync) before the cursor moves, so that up to the cursor the file is whole whatever
happens. Behind it the file may be ahead, or torn by a crash: recovery looks at the file's own tail, cuts off what is
not a whole line in order, and goes on after the last that is. A file that was taken away is written anew; one that
tells of what this database knows nothing of, as after a restore to an older moment, is set aside first.
"""

from __future__ import annotations

import os
from io import BufferedRandom
from pathlib import Path
from typing import Any

import orjson
import structlog
from django.conf import settings

from ..kernel import file_lock
from ..kernel.clock import now
from ..records.position import Position
from ..records.retirement import horizon
from .numbered import Batch
from .sink import Sink

log = structlog.get_logger(__name__)

BLOCK = 65_536


class JournalFile(Sink):
    name = "journal_file"

    def __init__(self) -> None:
        self.file: BufferedRandom | None = None

    def recover(self, cursor: int) -> int:
        self.close()
        path = settings.STATECORE_HOME / "transitions.jsonl"
        self.file = _opened(path)
        last, end = _tail(self.file, cursor)
        if last and not Position.objects.filter(position=last["position"], event=last.get("event_id")).exists():
            _set_aside(path, last["position"])
            self.close()
            self.file, last, end = _opened(path), None, 0
        self.file.truncate(end)
        self.file.seek(end)
        # What a killed process has written may not be on the disk yet, and the cursor will say that it is.
        os.fdatasync(self.file.fileno())
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


def _opened(path: Path) -> BufferedRandom:
    """Locked: a leader that does not know yet that it is none cannot write beside its successor."""
    return os.fdopen(file_lock.take(path), "r+b")


def _set_aside(path: Path, position: int) -> None:
    """Kept under a name of its own, never overwritten; all there is here is written anew."""
    aside = path.with_name(f"transitions-until-{now():%Y%m%dT%H%M%S%fZ}.jsonl")
    path.rename(aside)
    log.warning("journal_file_set_aside", ends_with=position, kept_as=str(aside))


def _tail(file: BufferedRandom, cursor: int) -> tuple[dict[str, Any] | None, int]:
    """The last line up to which the file is in order, and where it ends. Up to the cursor it is known to be."""
    start = _start_of_a_line_up_to(file, cursor)
    last, end = None, start
    # The first line of all begins the journal, or what is left of it.
    lowest, highest = 1, horizon() + 1 if start == 0 else cursor
    file.seek(start)
    for line in file:
        told = _parsed(line)
        if told is None or not lowest <= told["position"] <= highest:
            break
        lowest = highest = told["position"] + 1
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
