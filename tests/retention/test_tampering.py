"""Changed archive files, anchors and records are found and named."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from statecore.journal import Anchor, ArchivedRange, digest
from statecore.journal.archive import digest_anchors
from statecore.operations import integrity
from statecore.operations.integrity.archives import get_anchors
from statecore.storage import triggers
from tests.retention.past import Past, archive_old_events

pytestmark = pytest.mark.django_db(transaction=True)
Tampering = Callable[[Path, Past], Any]


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(lines)
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


def change_actor(lines: list[dict[str, Any]]) -> None:
    lines[2]["body"] = lines[2]["body"].replace('"system"', '"nobody"')


def change_actor_and_hash(lines: list[dict[str, Any]]) -> None:
    change_actor(lines)
    lines[2]["hash"] = digest(lines[2]["body"])


def flip_byte(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


FILE_TAMPERING: dict[str, tuple[Tampering, str]] = {
    "a flipped byte": (lambda path, past: flip_byte(path), "unreadable|does not match its hash|in place of position"),
    "a changed event": (lambda path, past: rewrite(path, change_actor), "at position 3 does not match its hash"),
    "a changed and rehashed event": (
        lambda path, past: rewrite(path, change_actor_and_hash),
        "does not follow|differs from its leaf|does not continue",
    ),
    "a removed last event": (lambda path, past: rewrite(path, lambda lines: lines.pop()), "ends before position"),
    "a removed first event": (lambda path, past: rewrite(path, lambda lines: lines.pop(0)), "in place of position 1"),
    "an additional event": (lambda path, past: rewrite(path, lambda lines: lines.append(lines[0])), "more lines after"),
    "compressed again": (lambda path, past: rewrite(path, lambda lines: None), "its bytes differ"),
    "a missing file": (lambda path, past: path.unlink(), "no such file"),
    "another file format": (lambda path, past: path.write_bytes(b"not gzip"), "unreadable"),
}  # fmt: skip


@pytest.mark.parametrize("what", FILE_TAMPERING)
def test_a_changed_archive_file_is_found_and_named(past: Past, what: str) -> None:
    (record,) = archive_old_events()
    tamper, words = FILE_TAMPERING[what]
    tamper(past.folder() / record.file, past)

    findings = integrity.check_all(past.folder())

    assert len(findings) == 1
    assert findings[0].severity == integrity.ERROR
    assert record.file in findings[0].detail
    assert re.search(words, findings[0].detail), findings[0].detail
    assert integrity.check_all() == []  # the database alone still verifies


def execute(statement: str, *params: Any) -> None:
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute(statement, params)
        assert cursor.rowcount > 0


def change_anchor_and_digests(past: Past) -> None:
    """Change an anchor and recompute every digest in the database, without changing the files."""
    with triggers.disabled(connection):
        Anchor.objects.filter(entity_id=past.ended.pk).update(actor="nobody")
        record = ArchivedRange.objects.get()
        record.anchors = digest_anchors(get_anchors(record))
        record.hash = record.digest()
        record.save()


DATABASE_TAMPERING: dict[str, tuple[Callable[[Past], Any], str]] = {
    "the hash of an anchor": (
        lambda past: execute("UPDATE statecore_anchor SET hash = 'x' WHERE entity_id = %s", past.live.pk),
        "anchors differ from the archived ones",
    ),
    "the state of an anchor": (
        lambda past: execute("UPDATE statecore_anchor SET to_state = 'failed' WHERE entity_id = %s", past.ended.pk),
        "anchors differ from the archived ones",
    ),
    "a removed anchor": (
        lambda past: execute("DELETE FROM statecore_anchor WHERE entity_id = %s", past.ended.pk),
        "no event for its version",
    ),
    "a record with another operator": (
        lambda past: execute("UPDATE statecore_retirement SET operator = 'bob'"), "its hash does not match its content",
    ),
    "a changed leaf of an archived event": (
        lambda past: execute("UPDATE statecore_treehashes SET hashes = %s WHERE level = 0 AND first = 0", bytes(32)),
        "the tree up to its last position differs",
    ),
    "the state of a row with archived history": (
        lambda past: execute("UPDATE statecore_task SET state = 'failed' WHERE id = %s", past.ended.pk),
        "its last event has the state (completed|validating)",
    ),
    "the evidence of a row with archived history": (
        lambda past: execute("UPDATE statecore_task SET exit_code = 1 WHERE id = %s", past.ended.pk),
        "carries decisions or evidence",
    ),
    "the digest of the evidence in an anchor": (
        lambda past: execute("UPDATE statecore_anchor SET evidence = 'x' WHERE entity_id = %s", past.ended.pk),
        "anchors differ from the archived ones",
    ),
    "a removed row with archived history": (
        lambda past: execute("DELETE FROM statecore_uetworker WHERE id = %s", past.live.pk),
        "it has events, but no row",
    ),
    "a removed first remaining event": (
        lambda past: execute("DELETE FROM statecore_event WHERE entity_id = %s", past.live.pk), "is missing",
    ),
    "more positions removed than archived": (
        lambda past: execute("DELETE FROM statecore_position WHERE position = %s", past.upto + 1), "were assigned",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DATABASE_TAMPERING)
def test_database_changes_are_found_without_the_files(past: Past, what: str) -> None:
    archive_old_events()
    tamper, words = DATABASE_TAMPERING[what]
    tamper(past)

    findings = "; ".join(str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR)

    assert re.search(words, findings), findings


def test_a_consistently_changed_anchor_is_found_with_the_files(past: Past) -> None:
    (record,) = archive_old_events()
    change_anchor_and_digests(past)

    assert integrity.check_all() == []
    (finding,) = integrity.check_all(past.folder())
    assert record.file in finding.detail
    assert "do not end in the anchors" in finding.detail
