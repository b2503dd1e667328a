"""The database and what is in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from statecore import backup, doctor
from statecore.journal import Event
from statecore.kernel import triggers
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.records import Alert
from statecore.records import token as tokens
from statecore.sequencer.leadership import Leadership
from statecore.sinks.counters import Counters
from statecore.sinks.journal_file import JournalFile
from statecore.sinks.seals import seal
from tests.doctor.asking import complaint, is_content_with, levels
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db


def later(**time: float) -> time_machine.travel:
    return time_machine.travel(now() + timedelta(**time), tick=False)


def test_the_database_answers() -> None:
    """That of the tests does not wait for its disk, which is told."""
    (first, *others) = doctor.examine(["database"])
    assert first.level == "ok"
    assert {"is off" in other.says for other in others} <= {True}


def test_a_migration_that_was_not_applied_is_an_error() -> None:
    assert is_content_with("migrations")
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("statecore")
    recorder.record_unapplied(*newest)
    try:
        level, says = complaint("migrations")
    finally:
        recorder.record_applied(*newest)
    assert (level, ".".join(newest) in says) == ("error", True)


def test_a_migration_of_a_later_version_is_a_warning() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("statecore", "0999_of_the_future")
    try:
        level, says = complaint("migrations")
    finally:
        recorder.record_unapplied("statecore", "0999_of_the_future")
    assert (level, "0999_of_the_future" in says) == ("warning", True)


def test_a_missing_trigger_is_an_error() -> None:
    assert is_content_with("triggers")
    with triggers.lowered(connection):
        assert complaint("triggers")[0] == "error"


@pytest.mark.postgres
@pytest.mark.parametrize(("seconds", "level"), [(0.1, "ok"), (3, "warning"), (60, "error")])
def test_clocks_that_differ_are_told(seconds: float, level: str) -> None:
    with time_machine.travel(now() + timedelta(seconds=seconds)):
        assert levels("clock") == [level]


def test_somebody_must_be_able_to_log_in() -> None:
    assert complaint("operators") == ("error", "nobody can log in")
    User.objects.create_superuser("ada", password="a-long-enough-one")
    assert is_content_with("operators")


def test_a_token_without_an_end_is_named_until_it_is_revoked() -> None:
    ada = User.objects.create_superuser("ada")
    tokens.make("brief", ada, "read", expires_in=timedelta(days=1))
    assert is_content_with("tokens")
    eternal, _text = tokens.make("eternal", ada, "agent")
    assert complaint("tokens") == ("warning", "1 never expire: eternal")
    tokens.revoke(eternal)
    assert is_content_with("tokens")


@pytest.mark.django_db(transaction=True)
def test_without_a_leader_nothing_is_numbered(home: Path) -> None:
    assert complaint("sequencer")[0] == "error"
    leadership = Leadership()
    assert leadership.take()
    try:
        assert is_content_with("sequencer")
    finally:
        leadership.give_up()
    assert complaint("sequencer")[0] == "error"


@pytest.mark.django_db(transaction=True)
def test_a_sequencer_that_is_behind_is_an_error(home: Path) -> None:
    leadership = Leadership()
    leadership.take()
    try:
        with time_machine.travel(now(), tick=False) as clock:
            world.task()
            clock.shift(timedelta(minutes=5))
            assert complaint("sequencer") == ("error", "numbering is behind by 300 s")
    finally:
        leadership.give_up()


@pytest.mark.django_db(transaction=True)
def test_the_journal_file_is_looked_at(home: Path) -> None:
    assert is_content_with("journal file")
    world.task()
    catch_up(JournalFile())
    assert is_content_with("journal file")
    path = home / "transitions.jsonl"
    path.write_bytes(b'{"position": 1, "event_id": "evt_of_another"}\n')
    assert complaint("journal file")[0] == "warning"
    path.write_bytes(b"torn")
    assert complaint("journal file")[0] == "warning"


@pytest.mark.django_db(transaction=True)
def test_a_seal_that_does_not_hold_is_an_error() -> None:
    world.task()
    catch_up(Counters())
    with later(minutes=20):
        assert complaint("seals")[0] == "warning"
    seal(3)
    assert is_content_with("seals")
    assert next(doctor.examine(["seals"])).says.startswith("1 seal, up to position")
    with triggers.lowered(connection):
        Event.objects.filter(pk=Event.objects.order_by("event_id")[0].pk).update(hash="0" * 64)
    assert complaint("seals")[0] == "error"


@pytest.mark.django_db(transaction=True)
def test_an_export_that_is_old_or_missing_is_a_warning(home: Path, settings) -> None:
    settings.STATECORE_BACKUP_DIR = home / "backup"
    assert is_content_with("backup")
    world.task()
    catch_up(Counters())
    assert complaint("backup")[0] == "warning"
    folder = backup.export(home / "backup")
    assert is_content_with("backup")
    with later(days=3):
        assert complaint("backup")[0] == "warning"
    (folder / "manifest.json").write_text("{")
    assert complaint("backup")[0] == "error"


def test_a_row_that_no_event_explains_is_an_error() -> None:
    task = world.task()
    assert is_content_with("integrity")
    with triggers.lowered(connection):
        Task.objects.filter(pk=task.pk).update(state="queued")
    level, says = complaint("integrity")
    assert (level, task.pk in says) == ("error", True)


def test_what_is_stuck_is_told_with_its_reason() -> None:
    world.running_task()
    with later(days=30):
        level, says = complaint("stuck")
    assert level == "warning"
    assert says


def test_an_alert_that_nobody_has_seen_is_told() -> None:
    assert is_content_with("alerts")
    Alert.objects.create(
        rule="rollback", key="p", severity="critical", detail="a patch was rolled back", opened_at=now()
    )
    assert "a patch was rolled back" in complaint("alerts")[1]
    Alert.objects.update(acknowledged_at=now())
    assert is_content_with("alerts")
