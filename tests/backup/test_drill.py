"""The restore drill reports what a restore would recover and removes its temporary database."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.operations import backup
from statecore.operations.backup.manifest import list_exports
from statecore.operations.retention import archive_events
from tests.backup.test_round_trip import make_delivered_history, make_history
from tests.support import world
from tests.support.databases import create_database
from tests.support.sequencer import catch_up

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db(transaction=True)]


def leftover_databases() -> list[str]:
    """Databases created by drills of this process; other processes may run drills at the same time."""
    if connection.vendor == "sqlite":
        return []
    with psycopg.connect(os.environ["DATABASE_URL"]) as server:
        names = server.execute("SELECT datname FROM pg_database").fetchall()
    return [name for (name,) in names if name.startswith(f"statecore_drill_{os.getpid()}_")]


def test_a_drill_restores_everything_and_cleans_up(home: Path) -> None:
    make_delivered_history()
    out = StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--json", stdout=out)

    report = json.loads(out.getvalue())
    assert report["events"] == Event.objects.count()
    assert (report["lost_events"], report["lost_seconds"]) == (0, 0.0)
    assert report["export_seconds"] > 0
    assert leftover_databases() == []


def test_a_drill_reports_events_newer_than_the_export_as_lost(home: Path) -> None:
    make_delivered_history()
    backup.export(home / "backup")
    known = Event.objects.count()
    make_history()
    out = StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--as-it-is", stdout=out)

    assert f"lost: {Event.objects.count() - known} events" in out.getvalue()
    assert len(list_exports(home / "backup")) == 1


def test_an_export_that_does_not_verify_fails_the_drill(home: Path) -> None:
    make_delivered_history()
    folder = backup.export(home / "backup")
    (folder / "events.jsonl.gz").write_bytes(b"")

    with pytest.raises(CommandError, match=r"events.jsonl.gz does not match its hash in the manifest"):
        call_command("drill", "--folder", str(home / "backup"), "--as-it-is")
    assert leftover_databases() == []


def test_a_drill_without_an_export_fails(home: Path) -> None:
    with pytest.raises(CommandError, match="there is no export"):
        call_command("drill", "--folder", str(home), "--as-it-is")


def test_a_drill_uses_and_keeps_a_given_database(home: Path, tmp_path: Path) -> None:
    make_delivered_history()
    own = create_database(tmp_path)

    backup.drill(home / "backup", into=own)

    with closing(sqlite3.connect(tmp_path / "own.sqlite3") if "sqlite" in own else psycopg.connect(own)) as restored:
        (count,) = restored.execute("SELECT count(*) FROM statecore_event").fetchone()
    assert count == Event.objects.count() + 1  # a restore starts an epoch


def test_archived_events_are_neither_restored_nor_reported_lost(home: Path) -> None:
    make_delivered_history()
    make_history()
    catch_up(Counters(), Tree())
    ended = now() + timedelta(days=1)
    records = list(
        archive_events(ended, home / "archived-events", by=world.operator(), reason="older than anybody asks for")
    )
    out = StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--json", stdout=out)

    report = json.loads(out.getvalue())
    assert records
    assert (report["events"], report["lost_events"]) == (Event.objects.count(), 0)
