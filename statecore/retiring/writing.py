"""Writes a range of events into a file that is there whole or not at all, and on the disk before it has its name."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import orjson
from django.db import connection

from ..records import Seal
from ..records.commit_order import EVENTS, POSITIONS

PAGE = 1_000


def path_of(folder: Path, seals: list[Seal]) -> Path:
    """The seal makes the name one of this history: another one never writes over it."""
    first, last = seals[0].first_position, seals[-1].last_position
    return folder / f"retired-{first:012d}-{last:012d}-{seals[-1].hash[:12]}.jsonl.gz"


def write(path: Path, first: int, last: int) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as raw:
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as file:
            for line in _lines(first, last):
                file.write(line)
        raw.flush()
        os.fsync(raw.fileno())
        # Whoever reads it back is to read the disk, not what is left of this in memory.
        os.posix_fadvise(raw.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    part.rename(path)


def sync(folder: Path) -> None:
    """The names in it, too, outlive a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _lines(first: int, last: int) -> Iterator[bytes]:
    for start in range(first, last + 1, PAGE):
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e "
                f"ON e.event_id = p.event_id WHERE p.position BETWEEN %s AND %s ORDER BY p.position",
                [start, min(last, start + PAGE - 1)],
            )
            for position, body, hash_ in cursor.fetchall():
                told = {"position": position, "body": body, "hash": hash_}
                yield orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)
