"""Finds the events that the files in the home directory have and the database has lost.

A database that is exactly the beginning of the history in these files, as after a failover to a replica that lacks the
last events, has lost the rest. The signed checkpoint proves it: the tree of the database, extended by the lost lines,
has the signed root. A database that differs in any other way was rewritten, or belongs to another installation.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import orjson

from statecore_client.transparency.checkpoint import Checkpoint
from statecore_client.transparency.evidence import InvalidEvidence, Line, parse_line
from statecore_client.transparency.merkle import HASH_SIZE, hash_leaf
from statecore_client.transparency.notes import InvalidNote

from ..kernel.actors import Kind
from .checkpoints import find_key, read_saved
from .epochs import Losses
from .home_files import build_lost_path, find_line_before, get_journal_path
from .position import Position, read_extent
from .tree import Frontier, tree_size

MAX_LISTED = 200
LISTED = ("event_id", "entity_type", "entity_id", "trigger", "actor", "timestamp")


class HistoryDiffers(Exception):
    """The home directory contains a history that the database contradicts. The message is a clause."""


def find_losses(head: int, epoch: int) -> Losses | None:
    """Returns the lost events of an epoch, or None if the database has all that the home directory has.

    If the start of the next epoch was interrupted, they are already in a separate file. Raises HistoryDiffers.
    """
    kept_aside = build_lost_path(epoch)
    path = kept_aside if kept_aside.exists() else get_journal_path()
    _verify_signed(head, path)
    return read_losses(path, head)


def is_loss_proven() -> bool:
    """Whether the database lost its last events, and the sequencer will start an epoch."""
    epoch, head = read_extent()
    try:
        return find_losses(head, epoch) is not None
    except HistoryDiffers:
        return False


def read_losses(path: Path, head: int) -> Losses | None:
    """Returns the events after a position in a file, or None if there are none. Raises HistoryDiffers."""
    first, last, counts, digest = 0, 0, Counter[str](), hashlib.sha256()
    events: list[dict[str, Any]] = []
    for text, line in _read_lines_after(path, head):
        first, last = first or line.position, line.position
        digest.update(text)
        body = orjson.loads(line.body)
        kind = body["details"]["actor_kind"]
        counts[kind] += 1
        if len(events) < MAX_LISTED:
            events.append(_describe(line.position, kind, body))
    if not first:
        return None
    reports = counts[Kind.AGENT.value] + counts[Kind.INTEGRATOR.value]
    return Losses(first, last, reports, counts[Kind.OPERATOR.value], events, path.name, digest.hexdigest())


def _describe(position: int, actor_kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"position": position, **{name: body[name] for name in LISTED}, "actor_kind": actor_kind}


def _read_lines_after(path: Path, head: int) -> Iterator[tuple[bytes, Line]]:
    """Yields the consecutive valid lines after a position; raises HistoryDiffers if the file does not lead up to it."""
    if not path.exists():
        return
    expected = None
    with path.open("rb") as file:
        file.seek(find_line_before(file, head))
        for text in file:
            try:
                line = parse_line(text) if text.endswith(b"\n") else None
            except InvalidEvidence:
                line = None
            if line is None or line.position != (expected or line.position):
                return  # a torn or damaged end, which the sequencer repairs
            if expected is None and line.position > head + 1:
                raise HistoryDiffers(f"{path.name} begins at position {line.position}, but the database ends at {head}")
            if line.position == head and line.hash != _get_hash(head):
                raise HistoryDiffers(f"the event at position {head} in {path.name} is not that of the database")
            expected = line.position + 1
            if line.position > head:
                if head == 0:
                    raise HistoryDiffers(f"the database is empty, but {path.name} is not")
                yield text, line


def _get_hash(position: int) -> str | None:
    return Position.objects.filter(position=position).values_list("event__hash", flat=True).first()


def _verify_signed(head: int, path: Path) -> None:
    """Raises HistoryDiffers unless the database, followed by the lost lines, is what the checkpoint was signed for."""
    saved = _read_signed()
    if saved is None:
        return
    if (size := tree_size()) > head:
        raise HistoryDiffers(f"the tree has {size} positions, but the database ends at position {head}")
    frontier = Frontier.load(min(size, saved.size))
    _append(frontier, _read_stored_leaves(frontier.size, min(head, saved.size)))
    if saved.size > head:
        wanted = takewhile(lambda each: each[1].position <= saved.size, _read_lines_after(path, head))
        _append(frontier, b"".join(hash_leaf(line.body) for _text, line in wanted))
    if (frontier.size, frontier.root()) != (saved.size, saved.root):
        raise HistoryDiffers(f"the database, followed by the lost events, is not what was signed at {saved.size}")


def _read_signed() -> Checkpoint | None:
    key = find_key()
    try:
        return read_saved(key) if key else None
    except InvalidNote as error:
        raise HistoryDiffers(f"the file checkpoint does not verify: {error}") from None


def _read_stored_leaves(after: int, upto: int) -> bytes:
    stored = Position.objects.filter(position__gt=after, position__lte=upto).order_by("position")
    bodies = stored.values_list("event__body", flat=True).iterator()
    return b"".join(hash_leaf((body or "").encode()) for body in bodies)


def _append(frontier: Frontier, leaves: bytes) -> None:
    """Extends a frontier in memory."""
    for start in range(0, len(leaves), HASH_SIZE << 8):
        list(frontier.extend(leaves[start : start + (HASH_SIZE << 8)]))


def keep_losses(losses: Losses, epoch: int, head: int) -> Losses:
    """Writes the lost lines of an epoch to a separate file, on the disk before this returns."""
    path = build_lost_path(epoch)
    if losses.file != path.name:
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.writelines(text for text, _line in _read_lines_after(get_journal_path(), head))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    return losses._replace(file=path.name)


def cut_journal_file(head: int) -> None:
    """Truncates the journal file after a position. One that was deleted is written again by its sink."""
    if not get_journal_path().exists():
        return
    with get_journal_path().open("r+b") as file:
        offset = find_line_before(file, head)
        file.seek(offset)
        for text in file:
            line = parse_line(text)
            if line.position > head:
                break
            offset += len(text)
        file.truncate(offset)
        os.fsync(file.fileno())
