"""The restore drill reports what a restore would recover and removes its temporary database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
import time_machine
from django.core.management import CommandError, call_command

from statecore import tasks
from statecore.delivery.sinks import alerts
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.operations import backup
from statecore.operations.backup.manifest import list_exports
from statecore.operations.process_metrics import RestoreDrillAge
from statecore.operations.retention import archive_events
from statecore.records import Alert, RestoreDrill
from tests.backup.test_round_trip import make_delivered_history, make_history
from tests.support import forked, world
from tests.support.databases import create_database
from tests.support.sequencer import catch_up, database_url
from tests.support.site import ROOT

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db(transaction=True)]


def leftover_databases() -> list[str]:
    """Databases that drills have created; other processes of the run may be at a drill of their own."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as server:
        found = server.execute("SELECT datname FROM pg_database WHERE datname LIKE 'statecore_drill_%'").fetchall()
    return [name for (name,) in found]


def run_as_owner(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with the role that deploy/roles.sql makes."""
    environ = {**os.environ, "DATABASE_URL": database_url("owner"), "STATECORE_HOME": str(home)}
    return forked.run([sys.executable, "manage.py", *words], env=environ, cwd=ROOT, timeout=120)


def test_the_owner_drills_the_newest_export_and_sees_what_it_lacks(home: Path) -> None:
    make_delivered_history()
    backup.export(home / "backup")
    known = Event.objects.count()
    make_history()
    before = leftover_databases()

    done = run_as_owner(home, "drill", "--as-it-is", "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["events"], report["lost_events"]) == (known, Event.objects.count() - known)
    assert set(leftover_databases()) <= set(before)
    assert len(list_exports(home / "backup")) == 1


def test_an_export_that_does_not_verify_fails_the_drill(home: Path) -> None:
    make_delivered_history()
    folder = backup.export(home / "backup")
    (folder / "events.jsonl.gz").write_bytes(b"")

    with pytest.raises(CommandError, match=r"events.jsonl.gz does not match its hash in the manifest"):
        call_command("drill", "--folder", str(home / "backup"), "--as-it-is")


def test_a_drill_without_an_export_fails(home: Path) -> None:
    with pytest.raises(CommandError, match="there is no export"):
        call_command("drill", "--folder", str(home), "--as-it-is")


def test_a_drill_keeps_a_given_database_and_leaves_archived_events_out(home: Path, tmp_path: Path) -> None:
    make_delivered_history()
    make_history()
    catch_up(Counters(), Tree())
    ended = now() + timedelta(days=1)
    assert list(archive_events(ended, home / "archived-events", by=world.operator(), reason="older than needed"))
    own, out = create_database(tmp_path), StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--into", own, "--json", stdout=out)

    report = json.loads(out.getvalue())
    assert (report["events"], report["lost_events"], report["lost_seconds"]) == (Event.objects.count(), 0, 0.0)
    assert report["export_seconds"] > 0
    with psycopg.connect(own) as restored:
        row = restored.execute("SELECT count(*) FROM statecore_event").fetchone()
    assert row == (Event.objects.count() + 1,), "a restore starts an epoch"


def evaluate() -> list[str]:
    alerts.evaluate(now())
    return list(Alert.objects.filter(rule="restore_drill", resolved_at=None).values_list("detail", flat=True))


def test_a_weekly_drill_is_stored_measured_and_alerted(home: Path, settings: Any) -> None:
    settings.STATECORE_BACKUP_DIR = home / "backup"
    settings.STATECORE_BACKUP_PASSPHRASE = "correct horse battery staple"
    tasks.run_due_drill()
    assert not RestoreDrill.objects.exists(), "it is off by default"

    settings.STATECORE_DRILL_DATABASE = "sqlite://"
    make_delivered_history()
    tasks.run_due_drill()
    tasks.run_due_drill()
    drill = RestoreDrill.objects.get()
    assert (drill.error, drill.position, drill.lost_events) == ("", head(), 0)
    assert [labels for labels, _age in RestoreDrillAge().values()] == [("success",)]
    assert evaluate() == []

    with time_machine.travel(now() + timedelta(days=7, minutes=1)):
        settings.STATECORE_BACKUP_PASSPHRASE = "another passphrase"
        tasks.run_due_drill()
        tasks.run_due_drill()
        (detail,) = evaluate()
        assert "failed: " in detail
        assert "was encrypted with another passphrase" in detail
        assert {labels for labels, _age in RestoreDrillAge().values()} == {("success",), ("failure",)}
        RestoreDrill.objects.exclude(error="").delete()
        assert evaluate() == []
    with time_machine.travel(now() + timedelta(days=9)):
        (detail,) = evaluate()
    assert detail.startswith("no restore drill was run since")
