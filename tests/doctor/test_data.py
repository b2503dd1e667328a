"""Checks of the database and its content."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from statecore.accounts import service_accounts
from statecore.delivery.sequencer import SEQUENCER
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.journal_file import JournalFile
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.operations import backup, doctor
from statecore.records import Alert
from statecore.records import token as tokens
from statecore.records.leader_lease import Leadership
from statecore.storage import triggers
from tests.doctor.results import get_problem, levels, passes
from tests.support import world
from tests.support.sequencer import catch_up, sign

pytestmark = pytest.mark.django_db


def later(**time: float) -> time_machine.travel:
    return time_machine.travel(now() + timedelta(**time), tick=False)


def test_the_database_answers() -> None:
    """The test database does not wait for its disk, which is the only warning allowed."""
    (first, *others) = doctor.run_checks(["database"])
    assert first.level == "ok"
    assert {"is off" in other.message for other in others} <= {True}


def test_a_migration_that_was_not_applied_is_an_error() -> None:
    assert passes("migrations")
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("statecore")
    recorder.record_unapplied(*newest)
    try:
        level, message = get_problem("migrations")
    finally:
        recorder.record_applied(*newest)
    assert (level, ".".join(newest) in message) == ("error", True)


def test_a_migration_of_a_later_version_is_a_warning() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("statecore", "0999_of_the_future")
    try:
        level, message = get_problem("migrations")
    finally:
        recorder.record_unapplied("statecore", "0999_of_the_future")
    assert (level, "0999_of_the_future" in message) == ("warning", True)


def test_a_missing_trigger_is_an_error() -> None:
    assert passes("triggers")
    with triggers.disabled(connection):
        assert get_problem("triggers")[0] == "error"


@pytest.mark.postgres
@pytest.mark.parametrize(("seconds", "level"), [(0.1, "ok"), (3, "warning"), (60, "error")])
def test_a_clock_difference_is_reported(seconds: float, level: str) -> None:
    with time_machine.travel(now() + timedelta(seconds=seconds)):
        assert levels("clock") == [level]


def test_an_installation_without_operators_is_an_error() -> None:
    assert get_problem("operators") == ("error", "no user can log in")
    User.objects.create_superuser("ada", password="a-long-enough-one")
    assert passes("operators")


def test_a_token_without_expiry_is_named_until_it_is_revoked() -> None:
    ada = User.objects.create_superuser("ada")
    tokens.make("brief", ada, "read", expires_in=timedelta(days=1))
    assert passes("tokens")
    eternal, _text = tokens.make("eternal", ada, "agent")
    assert get_problem("tokens") == ("warning", "1 never expire: eternal")
    tokens.revoke(eternal)
    assert passes("tokens")
    service_accounts.create("ci", owner="ada", purpose="builds", roles=["operator"], actor=THE_SYSTEM)
    service_accounts.issue_token("ci", "agent", lifetime=timedelta(days=1), actor=THE_SYSTEM)
    assert get_problem("tokens") == ("warning", "the last tokens of 1 expire within 7 days: service/ci")
    service_accounts.issue_token("ci", "agent", actor=THE_SYSTEM)
    assert passes("tokens")
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert get_problem("tokens") == ("warning", "1 service accounts have no active owner: ci")


@pytest.mark.django_db(transaction=True)
def test_a_sequencer_without_a_leader_is_an_error(home: Path) -> None:
    assert get_problem("sequencer")[0] == "error"
    leadership = Leadership(SEQUENCER)
    assert leadership.acquire()
    try:
        assert passes("sequencer")
    finally:
        leadership.release()
    assert get_problem("sequencer")[0] == "error"


@pytest.mark.django_db(transaction=True)
def test_a_sequencer_that_is_behind_is_an_error(home: Path) -> None:
    leadership = Leadership(SEQUENCER)
    leadership.acquire()
    try:
        with time_machine.travel(now(), tick=False) as clock:
            world.task()
            clock.shift(timedelta(minutes=5))
            assert get_problem("sequencer") == ("error", "numbering is behind by 300 s")
    finally:
        leadership.release()


@pytest.mark.django_db(transaction=True)
def test_a_damaged_journal_file_is_an_error(home: Path) -> None:
    assert passes("journal file")
    world.task()
    catch_up(JournalFile())
    assert passes("journal file")
    path = home / "transitions.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b'{"position": 1, "event_id": "evt_of_another"}\n')
    assert get_problem("journal file") == (
        "error", "transitions.jsonl: it is damaged at position 1: a line is not an event",
    )  # fmt: skip
    path.write_bytes(whole.replace(b"system", b"sysadm", 1))
    assert "position 1 does not match its hash" in get_problem("journal file")[1]
    path.write_bytes(whole + b'{"a line": "that is being written')
    assert passes("journal file")


@pytest.mark.django_db(transaction=True)
def test_a_missing_checkpoint_is_a_warning_and_a_broken_tree_an_error(home: Path) -> None:
    world.task()
    catch_up(Counters())
    with later(minutes=20):
        assert get_problem("tree")[0] == "warning"
    sign()
    assert passes("tree")
    assert next(doctor.run_checks(["tree"])).message == "signed up to position 3"
    with triggers.disabled(connection):
        Event.objects.filter(pk=Event.objects.order_by("event_id")[0].pk).update(body="{}")
    assert get_problem("tree")[0] == "error"


@pytest.mark.django_db(transaction=True)
def test_an_export_that_is_old_or_missing_is_a_warning(home: Path, settings) -> None:
    settings.STATECORE_BACKUP_DIR = home / "backup"
    assert passes("backup")
    world.task()
    catch_up(Counters())
    assert get_problem("backup")[0] == "warning"
    folder = backup.export(home / "backup")
    assert passes("backup")
    with later(days=3):
        assert get_problem("backup")[0] == "warning"
    (folder / "manifest.json").write_text("{")
    assert get_problem("backup")[0] == "error"


def test_a_row_that_no_event_explains_is_an_error() -> None:
    task = world.task()
    assert passes("integrity")
    with triggers.disabled(connection):
        Task.objects.filter(pk=task.pk).update(state="queued")
    level, message = get_problem("integrity")
    assert (level, task.pk in message) == ("error", True)


def test_stuck_rows_are_a_warning_with_a_reason() -> None:
    world.running_task()
    with later(days=30):
        level, message = get_problem("stuck")
    assert level == "warning"
    assert message


def test_an_unacknowledged_alert_is_reported() -> None:
    assert passes("alerts")
    Alert.objects.create(
        rule="rollback", key="p", severity="critical", detail="a patch was rolled back", opened_at=now()
    )
    assert "a patch was rolled back" in get_problem("alerts")[1]
    Alert.objects.update(acknowledged_at=now())
    assert passes("alerts")
