"""`transitions.jsonl` in the home directory: one line per event, ordered by position, without gaps or duplicates.

Each batch is on the disk (fdatasync) before the cursor moves, so the file is complete up to the cursor even after a
crash. Lines after the cursor may be missing, incomplete or damaged: recovery reads the end of the file, truncates it
after the last valid line, and continues from there. A deleted file is written again from the start. A file with events
that this database does not have, as after restoring an older backup, is renamed, and a new one is written.

While the sequencer leads, no other program may change the file. A deleted, replaced or truncated file is noticed by the
next write or tick, an edited one by its times, and any other change by a scan that compares the file with the database
again and again. What was found is kept beside, and a new file is written from the lines that are still right and from
the database.
"""

from __future__ import annotations

import os
import shutil
import time
from datetime import datetime
from io import BufferedRandom
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import structlog

from ...journal.archive import get_last_archived_position
from ...journal.copies import BATCH_SIZE, Difference, compare_lines, is_signed
from ...journal.home_files import (
    build_aside_path,
    build_tampered_path,
    find_line_before,
    get_journal_path,
    parse_position_line,
)
from ...journal.position import Position
from ...kernel.clock import now
from ...kernel.transition import Severity
from ...records.alert import INTEGRITY
from .alert_rules import Violation
from .alerts import open_or_update
from .sink import Batch, MissingEvent, NumberedEvent, Sink, read_batch

log = structlog.get_logger(__name__)

# Of each tick; the longer time if another program has touched the file.
SCAN_SECONDS, URGENT_SCAN_SECONDS = 0.05, 1.0


class JournalFileChanged(RuntimeError):
    """Another program has changed the file. The sink has to recover."""


class Stamp(NamedTuple):
    """What the file system knows of the file after the last write of this process."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def read(cls, path: Path) -> Stamp:
        return cls.build(path.stat())

    @classmethod
    def build(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class Damage(NamedTuple):
    problem: str
    # The number of bytes at the beginning that are still right.
    intact: int


class JournalFile(Sink):
    name = "journal_file"

    def __init__(self) -> None:
        self.file: BufferedRandom | None = None
        # None while this process writes.
        self.stamp: Stamp | None = None
        self.damage: Damage | None = None
        self.scan = Scan()

    def recover(self, cursor: int) -> int:
        path = get_journal_path()
        damage, self.damage = self.damage or self._find_damage(path), None
        if damage is not None and self.file is not None:
            self.file = _rewrite(self.file, path, damage)
            _open_alert(damage)
        else:
            self.close()
            self.file = _open(path)
        last, end = _find_last_valid_line(self.file, cursor)
        if last and not Position.objects.filter(position=last["position"], event=last.get("event_id")).exists():
            _set_aside(path, last["position"])
            self.close()
            self.file, last, end = _open(path), None, 0
        self.file.truncate(end)
        self.file.seek(end)
        # A killed process may have left lines that are not on the disk yet; the cursor must not move past them.
        os.fdatasync(self.file.fileno())
        self.stamp, self.scan = Stamp.build(os.fstat(self.file.fileno()))._replace(size=end), Scan()
        return int(last["position"]) if last else 0

    def deliver(self, batch: Batch) -> None:
        assert self.file is not None  # noqa: S101 - recover() comes first
        self._check_for_changes(get_journal_path())
        lines = [_format_line(event) for event in batch]
        self.stamp = None
        self.file.write(b"".join(lines))
        self.file.flush()
        end = self.file.tell()
        os.fdatasync(self.file.fileno())
        # Not the size that is found: the file may have been truncated since it was written.
        self.stamp = Stamp.build(os.fstat(self.file.fileno()))._replace(size=end)

    def tick(self, at: datetime) -> None:
        """Looks for changes by other programs. Raises JournalFileChanged."""
        if self.file is None or self.stamp is None:
            return
        path = get_journal_path()
        self._check_for_changes(path)
        self._refuse_damage(self.scan.run(path, self.stamp.size))

    def close(self) -> None:
        self.stamp = self.damage = None
        if self.file is not None:
            self.file.close()
            self.file = None

    def _check_for_changes(self, path: Path) -> None:
        """Raises JournalFileChanged if the file system shows damage, and scans the file from the start if it may."""
        self._refuse_damage(self._find_damage(path))
        if self.stamp is not None and (current := Stamp.read(path)) != self.stamp:
            log.warning("journal_file_touched", file=str(path))
            self.stamp, self.scan = current, Scan(is_urgent=True)

    def _find_damage(self, path: Path) -> Damage | None:
        """Returns what the file system alone shows: a deleted, replaced, truncated or extended file."""
        if self.stamp is None:
            return None
        try:
            current = Stamp.read(path)
        except FileNotFoundError:
            return Damage("it was deleted", self.stamp.size)
        if current.inode != self.stamp.inode:
            return Damage("it was replaced by another file", self.stamp.size)
        if current.size != self.stamp.size:
            sizes = self.stamp.size, current.size
            return Damage(f"its size changed from {sizes[0]} to {sizes[1]} bytes", min(sizes))
        return None

    def _refuse_damage(self, damage: Damage | None) -> None:
        if damage is not None:
            self.damage = damage
            raise JournalFileChanged(f"transitions.jsonl was changed by another program: {damage.problem}")


class Scan:
    """Compares the file with the database, a part in each tick, and begins again at its end."""

    def __init__(self, *, is_urgent: bool = False) -> None:
        self.offset, self.expected, self.is_urgent = 0, 0, is_urgent

    def run(self, path: Path, size: int) -> Damage | None:
        deadline = time.monotonic() + (URGENT_SCAN_SECONDS if self.is_urgent else SCAN_SECONDS)
        with path.open("rb") as file:
            file.seek(self.offset)
            while self.offset < size and time.monotonic() < deadline:
                lines = list(islice(file, BATCH_SIZE))
                if difference := compare_lines(lines, self.expected or None):
                    return self._judge(lines, difference)
                first = self.expected or orjson.loads(lines[0])["position"]
                if not self.offset and first > get_last_archived_position() + 1:
                    return Damage(f"it begins at position {first}", 0)
                self.offset, self.expected = self.offset + sum(map(len, lines)), first + len(lines)
        if self.offset >= size:
            self.offset, self.expected, self.is_urgent = 0, 0, False
        return None

    def _judge(self, lines: list[bytes], difference: Difference) -> Damage | None:
        """Returns the damage, or None if the file is right and the database was rewritten."""
        if difference.is_damage and lines[difference.line] == _format_from_database(difference.position):
            # Written by this program, so writing it again would not help.
            self.offset += sum(map(len, lines[: difference.line + 1]))
            self.expected = difference.position + 1
            return None
        if not difference.is_damage and not is_signed(difference.position):
            log.error("journal_rewritten", problem=f"transitions.jsonl: {difference.detail}")
            self.offset, self.expected = 0, 0
            return None
        # Lines of archived events cannot be written again, and a file must not have gaps.
        is_archived = difference.position <= get_last_archived_position()
        intact = 0 if is_archived else self.offset + sum(map(len, lines[: difference.line]))
        return Damage(difference.detail, intact)


def _open_alert(damage: Damage) -> None:
    """Alerts at once; the alert resolves when a complete check no longer finds the kept file."""
    facts = {"check": JournalFile.name, "entity_type": "", "ids": []}
    detail = f"transitions.jsonl was changed by another program: {damage.problem}; it was repaired"
    open_or_update(INTEGRITY, Severity.CRITICAL, Violation(JournalFile.name, detail, facts), now())


def _format_line(event: NumberedEvent) -> bytes:
    return orjson.dumps({"position": event.position, **event.serialized}, option=orjson.OPT_APPEND_NEWLINE)


def _format_from_database(position: int) -> bytes | None:
    try:
        return b"".join(map(_format_line, read_batch(position - 1, 1))) or None
    except MissingEvent:
        return None


def _rewrite(old: BufferedRandom, path: Path, damage: Damage) -> BufferedRandom:
    """Keeps what is found at the path, and returns a new file with the intact lines.

    They are read from the file that this process has open, which exists even if its path was deleted. A deletion
    leaves an empty file as its trace.
    """
    aside = build_tampered_path(path)
    if path.exists():
        path.rename(aside)
    else:
        aside.touch(mode=0o600)
    log.error("journal_file_tampered", problem=damage.problem, kept_as=str(aside))
    new = _open(path)
    with old:
        old.seek(0)
        shutil.copyfileobj(old, new)
    new.truncate(damage.intact)
    return new


def _open(path: Path) -> BufferedRandom:
    """Opens the file, creating it if needed. It is not locked: a leader that hangs would keep the lock.

    What it has begun to write changes nothing, because each position has its bytes and its place in the file.
    """
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")


def _set_aside(path: Path, position: int) -> None:
    """Renames the file to a unique name, so that nothing overwrites it."""
    aside = path.rename(build_aside_path(path, "until"))
    log.warning("journal_file_set_aside", last_position=position, renamed_to=str(aside))


def _find_last_valid_line(file: BufferedRandom, cursor: int) -> tuple[dict[str, Any] | None, int]:
    """Returns the last line up to which the positions are consecutive, and the offset of its end."""
    start = find_line_before(file, cursor)
    last, end = None, start
    # The first line of the file is the first event of the journal, or the first one after the archived events.
    lowest, highest = 1, get_last_archived_position() + 1 if start == 0 else cursor
    file.seek(start)
    for line in file:
        event = parse_position_line(line)
        if event is None or not lowest <= event["position"] <= highest:
            break
        lowest = highest = event["position"] + 1
        last, end = event, end + len(line)
    return last, end
