"""The drill: what it says is what a restore would have, and it leaves nothing behind."""

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

from statecore import backup
from statecore.backup.manifest import exports
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.retiring import retire
from statecore.sinks.counters import Counters
from statecore.sinks.seals import Seals, seal
from tests.backup.test_round_trip import sealed_work, work
from tests.support import world
from tests.support.databases import fresh_url
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


def left_behind() -> list[str]:
    """Databases that drills of this process have made; others may rehearse at the same time."""
    if connection.vendor == "sqlite":
        return []
    with psycopg.connect(os.environ["DATABASE_URL"]) as server:
        names = server.execute("SELECT datname FROM pg_database").fetchall()
    return [name for (name,) in names if name.startswith(f"statecore_drill_{os.getpid()}_")]


def test_a_drill_restores_everything_and_cleans_up(home: Path) -> None:
    sealed_work()
    out = StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--json", stdout=out)

    told = json.loads(out.getvalue())
    assert told["events"] == Event.objects.count()
    assert (told["lost_events"], told["lost_seconds"]) == (0, 0.0)
    assert told["export_seconds"] > 0
    assert left_behind() == []


def test_what_came_after_the_export_would_be_lost(home: Path) -> None:
    sealed_work()
    backup.export(home / "backup")
    known = Event.objects.count()
    work()
    out = StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--as-it-is", stdout=out)

    assert f"lost: {Event.objects.count() - known} events" in out.getvalue()
    assert len(exports(home / "backup")) == 1


def test_an_export_that_does_not_verify_fails_the_drill(home: Path) -> None:
    sealed_work()
    folder = backup.export(home / "backup")
    (folder / "events.jsonl.gz").write_bytes(b"")

    with pytest.raises(CommandError, match=r"events.jsonl.gz is not what its manifest says"):
        call_command("drill", "--folder", str(home / "backup"), "--as-it-is")
    assert left_behind() == []


def test_without_an_export_there_is_nothing_to_rehearse(home: Path) -> None:
    with pytest.raises(CommandError, match="there is no export"):
        call_command("drill", "--folder", str(home), "--as-it-is")


def test_a_database_that_was_given_is_used_and_kept(home: Path, tmp_path: Path) -> None:
    sealed_work()
    own = fresh_url(tmp_path)

    backup.drill(home / "backup", into=own)

    with closing(sqlite3.connect(tmp_path / "own.sqlite3") if "sqlite" in own else psycopg.connect(own)) as restored:
        (count,) = restored.execute("SELECT count(*) FROM statecore_event").fetchone()
    assert count == Event.objects.count()


def test_what_was_retired_is_neither_restored_nor_lost(home: Path) -> None:
    sealed_work()
    work()
    catch_up(Counters(), Seals())
    seal(1_000)
    ended = now() + timedelta(days=1)
    records = list(retire(ended, home / "retired", by=world.operator(), reason="older than anybody asks for"))
    out = StringIO()

    call_command("drill", "--folder", str(home / "backup"), "--json", stdout=out)

    told = json.loads(out.getvalue())
    assert records
    assert (told["events"], told["lost_events"]) == (Event.objects.count(), 0)
