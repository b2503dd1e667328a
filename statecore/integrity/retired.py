"""What was retired: the records of it follow each other and name their anchors, and the files hold the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..journal import GENESIS
from ..kernel.file_hash import sha256
from ..records import Anchor, Retirement, Seal
from ..records.retirement import Anchored, digest_of
from .finding import ERROR, Finding
from .retired_file import NotAsSealed, contents


def records_hold() -> Iterator[Finding]:
    """The first record that does not hold; the ones after it rest on it."""
    before: Retirement | None = None
    for record in Retirement.objects.order_by("last_position"):
        if why := _objection(record, before):
            yield _finding(record, why)
            return
        before = record


def _objection(record: Retirement, before: Retirement | None) -> str | None:
    if record.first_position != (before.last_position + 1 if before else 1):
        return "what was retired before it is missing"
    if record.prev_hash != (before.hash if before else GENESIS):
        return "it does not follow what was retired before it"
    if record.hash != record.digest():
        return "it is not what its hash says"
    seal = Seal.objects.filter(last_position=record.last_position).first()
    if seal is None or seal.hash != record.seal:
        return "it does not end with the seal that it names"
    if digest_of(anchors_under(record)) != record.anchors:
        return "its anchors are not those that were kept"
    return None


def anchors_under(record: Retirement) -> Iterable[Anchored]:
    rows = Anchor.objects.filter(retirement=record).values_list(*Anchored._fields)
    return (Anchored._make(row) for row in rows.iterator())


def files_hold(folder: Path) -> Iterator[Finding]:
    """Every file, byte by byte: it is the one that was kept, and its chains end in the anchors that are here."""
    for record in Retirement.objects.order_by("last_position"):
        if why := _objection_to_file(record, folder / record.file):
            yield _finding(record, why)


def _objection_to_file(record: Retirement, path: Path) -> str | None:
    if not path.exists():
        return f"there is no such file in {path.parent}"
    try:
        found = contents(path, seals_of(record.first_position, record.last_position))
    except NotAsSealed as error:
        return str(error)
    if digest_of(found.last.values()) != record.anchors or digest_of(anchors_under(record)) != record.anchors:
        return "its chains do not end in the anchors that are in the database"
    if sha256(path) != record.sha256:
        return "its bytes are not those that were written, though its events are"
    return None


def seals_of(first: int, last: int) -> list[Seal]:
    return list(Seal.objects.filter(first_position__gte=first, last_position__lte=last).order_by("last_position"))


def _finding(record: Retirement, why: str) -> Finding:
    return Finding("retired", ERROR, "", "", f"{record}: {why}")
