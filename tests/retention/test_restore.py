"""Exports before and after something was retired bring back the database there was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from statecore import backup, integrity
from statecore.backup.manifest import Manifest
from statecore.kernel import triggers
from statecore.records import Retirement
from statecore.records.retirement import horizon
from statecore.sinks import counters
from tests.retention.past import Past, everything, later, retired

pytestmark = pytest.mark.django_db(transaction=True)


def emptied() -> None:
    with triggers.lowered(connection):
        call_command("flush", verbosity=0, interactive=False)


def test_an_export_after_it_begins_with_what_is_left(past: Past, home: Path, capsys) -> None:
    retired()
    before = everything()
    folder = backup.export(home / "backup")
    emptied()

    call_command("restore", str(folder))

    told = capsys.readouterr().out
    assert everything() == before
    assert Manifest.read(folder).first_position == past.upto + 1
    assert f"positions 1 to {past.upto} were retired" in told
    assert Retirement.objects.get().file in told
    assert integrity.check_all(past.folder()) == []


def test_exports_that_began_before_it_go_on_and_restore_the_same(past: Past, home: Path) -> None:
    first = backup.export(home / "backup")
    retired()
    later()
    newest = backup.export(home / "backup")
    before = everything()
    emptied()

    backup.restore(home / "backup", past.folder())

    assert Manifest.read(newest).previous == first.name
    assert everything() == before
    assert counters.reconcile() == []
    later()
    assert integrity.check_all(past.folder()) == []


def test_an_export_that_ends_before_the_horizon_is_not_gone_on_from(past: Past, home: Path) -> None:
    backup.export(home / "backup")
    later()
    later()
    retired()
    newest = backup.export(home / "backup")
    before = everything()
    emptied()

    backup.restore(newest)

    assert Manifest.read(newest).previous is None
    assert everything() == before


def test_an_export_from_before_it_restores_all_and_it_can_be_retired_again(past: Past, home: Path) -> None:
    older = backup.export(home / "backup")
    (record,) = retired()
    retired_then = everything()["events"]
    emptied()

    backup.restore(older)
    assert horizon() == 0
    (again,) = retired()

    assert (again.file, again.sha256, again.anchors) == (record.file, record.sha256, record.anchors)
    assert everything()["events"] == retired_then
    assert integrity.check_all(past.folder()) == []


def test_a_retired_file_that_is_missing_or_wrong_is_named(past: Past, home: Path) -> None:
    (record,) = retired()
    folder = backup.export(home / "backup")
    (past.folder() / record.file).write_bytes(b"")
    emptied()

    with pytest.raises(CommandError, match=re.escape(record.file)):
        call_command("restore", str(folder), archives=past.folder())
    with pytest.raises(CommandError, match="no such file"):
        call_command("restore", str(folder), archives=home)

    assert not Retirement.objects.exists()


def test_a_record_that_is_missing_restores_nothing(past: Past, home: Path) -> None:
    from tests.backup.test_round_trip import rewritten

    retired()
    folder = backup.export(home / "backup")
    emptied()
    rewritten(folder, "statecore_anchor.jsonl.gz", lambda lines: lines[1:])

    with pytest.raises(CommandError, match=r"anchors are not those|no event for its version"):
        call_command("restore", str(folder))
