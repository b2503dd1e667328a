"""A changed byte in a file, a changed anchor, a changed record: found, and named."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from statecore import integrity
from statecore.integrity.retired import anchors_under
from statecore.journal import digest
from statecore.kernel import triggers
from statecore.records import Anchor, Retirement
from statecore.records.retirement import digest_of
from tests.retention.past import Past, retired

pytestmark = pytest.mark.django_db(transaction=True)
Tampering = Callable[[Path, Past], Any]


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(lines)
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


def another_reason(lines: list[dict[str, Any]]) -> None:
    lines[2]["body"] = lines[2]["body"].replace('"system"', '"nobody"')


def hashed_anew(lines: list[dict[str, Any]]) -> None:
    another_reason(lines)
    lines[2]["hash"] = digest(lines[2]["body"])


def a_byte(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


IN_THE_FILE: dict[str, tuple[Tampering, str]] = {
    "a byte flipped": (lambda path, past: a_byte(path), "cannot be read|does not hash|where position"),
    "an event changed": (lambda path, past: rewritten(path, another_reason), "at position 3 does not hash"),
    "an event changed and hashed anew": (
        lambda path, past: rewritten(path, hashed_anew), "does not follow|not those under seal|does not go on",
    ),
    "the last event gone": (lambda path, past: rewritten(path, lambda lines: lines.pop()), "ends before position"),
    "the first event gone": (lambda path, past: rewritten(path, lambda lines: lines.pop(0)), "position 1 should be"),
    "one more event": (lambda path, past: rewritten(path, lambda lines: lines.append(lines[0])), "goes on after"),
    "packed anew": (lambda path, past: rewritten(path, lambda lines: None), "bytes are not those"),
    "no file": (lambda path, past: path.unlink(), "no such file"),
    "something else": (lambda path, past: path.write_bytes(b"not gzip"), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("what", IN_THE_FILE)
def test_a_touched_file_is_found_and_named(past: Past, what: str) -> None:
    (record,) = retired()
    tamper, words = IN_THE_FILE[what]
    tamper(past.folder() / record.file, past)

    findings = integrity.check_all(past.folder())

    assert len(findings) == 1
    assert findings[0].severity == integrity.ERROR
    assert record.file in findings[0].detail
    assert re.search(words, findings[0].detail), findings[0].detail
    assert integrity.check_all() == []  # the database by itself is as it was


def changed(statement: str, *params: Any) -> None:
    with triggers.lowered(connection), connection.cursor() as cursor:
        cursor.execute(statement, params)
        assert cursor.rowcount > 0


def an_anchor_that_nobody_can_see_was_changed(past: Past) -> None:
    """Somebody who knows how digests and records are made, and lacks the files."""
    with triggers.lowered(connection):
        Anchor.objects.filter(entity_id=past.ended.pk).update(actor="nobody")
        record = Retirement.objects.get()
        record.anchors = digest_of(anchors_under(record))
        record.hash = record.digest()
        record.save()


IN_THE_DATABASE: dict[str, tuple[Callable[[Past], Any], str]] = {
    "the hash of an anchor": (
        lambda past: changed("UPDATE statecore_anchor SET hash = 'x' WHERE entity_id = %s", past.live.pk),
        "anchors are not those",
    ),
    "the state of an anchor": (
        lambda past: changed("UPDATE statecore_anchor SET to_state = 'failed' WHERE entity_id = %s", past.ended.pk),
        "anchors are not those",
    ),
    "an anchor gone": (
        lambda past: changed("DELETE FROM statecore_anchor WHERE entity_id = %s", past.ended.pk),
        "no event for its version",
    ),
    "a record that names somebody else": (
        lambda past: changed("UPDATE statecore_retirement SET operator = 'bob'"), "not what its hash says",
    ),
    "a seal changed": (
        lambda past: changed("UPDATE statecore_seal SET root = 'x' WHERE first_position = 1"), "not what its hash says",
    ),
    "the state of a row whose history is retired": (
        lambda past: changed("UPDATE statecore_task SET state = 'failed' WHERE id = %s", past.ended.pk),
        "its last event says completed|its last event says validating",
    ),
    "a row whose history is retired gone": (
        lambda past: changed("DELETE FROM statecore_uetworker WHERE id = %s", past.live.pk), "its row is not",
    ),
    "the first event that is left gone": (
        lambda past: changed("DELETE FROM statecore_event WHERE entity_id = %s", past.live.pk), "is gone",
    ),
    "more positions gone than were retired": (
        lambda past: changed("DELETE FROM statecore_position WHERE position = %s", past.upto + 1), "were given",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", IN_THE_DATABASE)
def test_what_is_touched_in_the_database_is_found_without_the_files(past: Past, what: str) -> None:
    retired()
    tamper, words = IN_THE_DATABASE[what]
    tamper(past)

    said = "; ".join(str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR)

    assert re.search(words, said), said


def test_the_files_tell_on_an_anchor_that_was_changed_with_all_that_names_it(past: Past) -> None:
    (record,) = retired()
    an_anchor_that_nobody_can_see_was_changed(past)

    assert integrity.check_all() == []
    (finding,) = integrity.check_all(past.folder())
    assert record.file in finding.detail
    assert "do not end in the anchors" in finding.detail
