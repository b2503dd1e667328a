"""Exports made before and after archiving restore the same database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from statecore.delivery.sinks import counters
from statecore.journal import ArchivedRange
from statecore.journal.archive import get_last_archived_position
from statecore.operations import backup, integrity
from statecore.operations.backup.manifest import Manifest
from tests.backup.tables import flush_database, read_all_rows, rewrite_rows
from tests.retention.past import Past, append_newer_events, archive_old_events

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_export_after_archiving_starts_at_the_first_remaining_event(past: Past, home: Path, capsys) -> None:
    archive_old_events()
    before = read_all_rows()
    folder = backup.export(home / "backup")
    flush_database()

    call_command("restore", str(folder))

    output = capsys.readouterr().out
    assert read_all_rows() == before
    assert Manifest.read(folder).first_position == past.upto + 1
    assert f"positions 1 to {past.upto} are archived" in output
    assert ArchivedRange.objects.get().file in output
    assert integrity.check_all(past.folder()) == []


def test_exports_started_before_archiving_continue_and_restore_the_same_database(past: Past, home: Path) -> None:
    first = backup.export(home / "backup")
    archive_old_events()
    append_newer_events()
    newest = backup.export(home / "backup")
    before = read_all_rows()
    flush_database()

    backup.restore(home / "backup", past.folder())

    assert Manifest.read(newest).previous == first.name
    assert read_all_rows() == before
    assert counters.reconcile() == []
    append_newer_events()
    assert integrity.check_all(past.folder()) == []


def test_an_export_that_ends_within_the_archived_events_is_not_continued(past: Past, home: Path) -> None:
    backup.export(home / "backup")
    append_newer_events()
    append_newer_events()
    archive_old_events()
    newest = backup.export(home / "backup")
    before = read_all_rows()
    flush_database()

    backup.restore(newest)

    assert Manifest.read(newest).previous is None
    assert read_all_rows() == before


def test_an_export_from_before_archiving_restores_everything_for_archiving_again(past: Past, home: Path) -> None:
    older = backup.export(home / "backup")
    (record,) = archive_old_events()
    remaining = read_all_rows()["events"]
    flush_database()

    backup.restore(older)
    assert get_last_archived_position() == 0
    (again,) = archive_old_events()

    assert (again.file, again.sha256, again.anchors) == (record.file, record.sha256, record.anchors)
    # The second archiving is an entry of its own; all other events are the same.
    assert len(remaining) == len(read_all_rows()["events"]) == len({*remaining} & {*read_all_rows()["events"]}) + 1
    assert integrity.check_all(past.folder()) == []


def test_a_missing_or_wrong_archive_file_is_named(past: Past, home: Path) -> None:
    (record,) = archive_old_events()
    folder = backup.export(home / "backup")
    (past.folder() / record.file).write_bytes(b"")
    flush_database()

    with pytest.raises(CommandError, match=re.escape(record.file)):
        call_command("restore", str(folder), archives=past.folder())
    with pytest.raises(CommandError, match="no such file"):
        call_command("restore", str(folder), archives=home)

    assert not ArchivedRange.objects.exists()


def test_a_missing_anchor_restores_nothing(past: Past, home: Path) -> None:
    archive_old_events()
    folder = backup.export(home / "backup")
    flush_database()
    rewrite_rows(folder, "statecore_anchor.jsonl.gz", lambda lines: lines[1:])

    with pytest.raises(CommandError, match=r"anchors differ from the archived ones|no event for its version"):
        call_command("restore", str(folder))
