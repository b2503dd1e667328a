"""Old events are archived in a verified file, and the remaining database still adds up."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from statecore.delivery.sinks import counters
from statecore.delivery.sinks.alerts import Alerts
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Anchor, ArchivedRange, Event, Position, digest
from statecore.journal.archive import get_last_archived_position
from statecore.journal.position import head
from statecore.journal.tree import compute_root_at
from statecore.kernel.clock import now
from statecore.operations import integrity, retention
from statecore.operations.retention.archive import get_archive_path
from statecore.records import (
    AuditNote,
    SinkCursor,
)
from statecore.storage import triggers, write_guard
from statecore.storage.files import sha256
from tests.doctor.results import get_problem, passes
from tests.retention.past import (
    OLD,
    REASON,
    Past,
    append_newer_events,
    archive_old_events,
    deliver,
)
from tests.support import world
from tests.support.sequencer import catch_up, lines

pytestmark = pytest.mark.django_db(transaction=True)


def test_old_events_are_in_a_file_and_not_in_the_database(past: Past) -> None:
    before = {event.event_id: event.body for event in Event.objects.all()}
    placed = dict(Position.objects.filter(position__lte=past.upto).values_list("position", "event_id"))

    (record,) = archive_old_events()

    assert (record.first_position, record.last_position) == (1, past.upto)
    assert not Position.objects.filter(position__lte=past.upto).exists()
    assert not Event.objects.filter(event_id__in=placed.values()).exists()
    # Archiving itself is an entry of the journal.
    assert Event.objects.count() == len(before) - past.upto + 1
    archived = [json.loads(line) for line in gzip.decompress((past.folder() / record.file).read_bytes()).splitlines()]
    assert [(line["position"], line["body"]) for line in archived] == [
        (position, before[event_id]) for position, event_id in sorted(placed.items())
    ]
    assert all(digest(line["body"]) == line["hash"] for line in archived)
    assert record.sha256 == sha256(past.folder() / record.file)


def test_everything_still_verifies_with_and_without_the_files(past: Past) -> None:
    archive_old_events()

    assert integrity.check_all() == []
    assert integrity.check_all(past.folder()) == []
    assert integrity.check_recent() == []
    assert integrity.check_range(0, head()) == []
    assert integrity.check_entity("uet_worker", past.live.pk) == []
    assert integrity.check_entity("task", past.ended.pk) == []


def test_the_counters_still_equal_a_fresh_count(past: Past) -> None:
    archive_old_events()

    assert counters.reconcile() == []
    append_newer_events()
    assert counters.reconcile() == []


def test_events_archived_during_a_reconciliation_are_not_reported_missing(past: Past) -> None:
    records: list[ArchivedRange] = []

    def archive_first(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if "e.from_state" in sql and not records:
            records.extend(archive_old_events())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(archive_first):
        assert counters.reconcile() == []
    assert records
    assert counters.reconcile() == []


def test_a_chain_continues_from_its_anchor(past: Past) -> None:
    archive_old_events()
    world.fire(past.live, "task_completed")
    world.forced(world.workstream(), "failed")
    deliver()
    append_newer_events()

    archive_old_events()

    assert Anchor.objects.filter(entity_id=past.live.pk).count() == 2
    assert ArchivedRange.objects.count() == 2
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []


def test_archiving_works_in_batches(past: Past) -> None:
    records = archive_old_events(limit=5)

    assert len(records) == len(list(past.folder().glob("*.gz"))) > 2
    assert all(record.last_position - record.first_position < 5 for record in records)
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []
    assert get_last_archived_position() == past.upto


def test_the_operator_and_the_reason_are_recorded(past: Past) -> None:
    (record,) = archive_old_events()

    (note,) = AuditNote.objects.filter(kind="archived")
    assert (record.operator, record.reason, note.actor, note.facts["reason"]) == ("ada", REASON, "ada", REASON)
    assert (note.facts["file"], note.facts["sha256"]) == (record.file, record.sha256)


def test_the_last_position_stays(past: Past) -> None:
    with time_machine.travel(now() + timedelta(days=1)):
        archive_old_events()

        assert archive_old_events() == []
    assert get_last_archived_position() == head() - 1


def test_events_a_sink_has_not_read_are_kept(past: Past) -> None:
    SinkCursor.objects.filter(sink="counters").update(position=7)

    assert [record.last_position for record in archive_old_events()] == [7]


def test_a_new_sink_starts_after_the_archived_events(past: Past) -> None:
    archive_old_events()

    catch_up(Alerts(), Tree())

    assert SinkCursor.objects.get(sink="alerts").position == head()


def test_the_journal_file_is_rewritten_from_the_remaining_events(past: Past, home: Path) -> None:
    archive_old_events()
    deliver()
    assert [line["position"] for line in lines()] == list(range(1, head() + 1))

    (home / "transitions.jsonl").rename(home / "elsewhere.jsonl")
    deliver()
    append_newer_events()

    assert [line["position"] for line in lines()] == list(range(get_last_archived_position() + 1, head() + 1))


def test_numbering_continues_after_everything_was_archived(past: Past) -> None:
    archive_old_events()
    append_newer_events()
    append_newer_events()
    archive_old_events()

    world.task()
    deliver()

    assert head() == get_last_archived_position() + Event.objects.count()
    assert integrity.check_all(past.folder()) == []


REFUSED = {
    "no permission": ({"by": lambda: world.operator_with("view_event")}, "lacks the permission"),
    "no reason": ({"reason": lambda: "too old"}, "the reason must be"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_archiving_requires_a_permission_and_a_reason(past: Past, why: str) -> None:
    options, words = REFUSED[why]

    with pytest.raises(retention.ArchivingFailed, match=words):
        archive_old_events(**{name: made() for name, made in options.items()})

    assert not ArchivedRange.objects.exists()


def test_the_permission_suffices_without_superuser_status(past: Past) -> None:
    assert archive_old_events(by=world.operator_with("archive_events"))


def test_events_cannot_be_deleted_without_the_write_guard(past: Past) -> None:
    for statement in ("DELETE FROM statecore_event", "DELETE FROM statecore_position"):
        with pytest.raises(IntegrityError, match="cannot be deleted"), world.disable_write_guard():
            connection.cursor().execute(statement)


@pytest.mark.parametrize(
    "table", ["statecore_retirement", "statecore_anchor", "statecore_treehashes", "statecore_task"]
)
def test_the_write_guard_unlocks_no_other_table(past: Past, table: str) -> None:
    archive_old_events()

    with (
        pytest.raises(IntegrityError, match="cannot be deleted"),
        transaction.atomic(),
        write_guard.allow_writes(connection, write_guard.RETENTION),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("change", ["actor = 'nobody'", "body = replace(body, 'details', 'Details')", "hash = 'x'"])
def test_events_that_do_not_verify_are_not_archived(past: Past, change: str) -> None:
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute(f"UPDATE statecore_event SET {change} WHERE entity_id = %s", [past.ended.pk])

    with pytest.raises(retention.ArchivingFailed, match="does not verify"):
        archive_old_events()

    assert not ArchivedRange.objects.exists()
    assert not list(past.folder().glob("*.gz"))


def test_an_existing_file_with_wrong_content_is_refused(past: Past) -> None:
    path = get_archive_path(past.folder(), 1, 5, compute_root_at(5))
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"{}\n"))

    with pytest.raises(retention.ArchivingFailed, match="exists but is invalid"):
        archive_old_events(limit=5)

    assert not ArchivedRange.objects.exists()


def test_the_command_is_off_without_a_retention_period(past: Past) -> None:
    with pytest.raises(CommandError, match="STATECORE_RETENTION_DAYS is not set"):
        call_command("archive", operator="ada", reason=REASON)


def test_the_command_archives_events_older_than_the_setting(past: Past, settings, capsys) -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser("ada")
    settings.STATECORE_RETENTION_DAYS = 30
    call_command("archive", operator="ada", reason=REASON)
    assert "nothing" in capsys.readouterr().out

    with time_machine.travel(now() + timedelta(days=30) - OLD):
        call_command("archive", operator="ada", reason=REASON, dry_run=True)
        assert f"{past.upto} events, positions 1 to {past.upto}" in capsys.readouterr().out
        assert not ArchivedRange.objects.exists()

        with pytest.raises(CommandError, match="no user"):
            call_command("archive", operator="nobody", reason=REASON)
        call_command("archive", operator="ada", reason=REASON)

    assert f"100 %: positions 1 to {past.upto}, archived in" in capsys.readouterr().out
    assert get_last_archived_position() == past.upto
    call_command("integrity", archives=past.folder())
    assert capsys.readouterr().out.startswith("0 errors")


def test_other_work_continues_during_archiving(past: Past) -> None:
    """Writing, numbering, signing and verifying continue while events are archived."""
    stop, failures = threading.Event(), []

    def run_in_background(work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()
            except Exception as error:  # noqa: BLE001 - asserted below
                failures.append(error)
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    # On a slow machine the workers would otherwise miss their heartbeats before the last check.
    with time_machine.travel(now(), tick=False):
        others = [
            run_in_background(create_transitions),
            run_in_background(lambda: failures.extend(integrity.check_all())),
        ]
        try:
            for _ in range(2):
                append_newer_events()
                archive_old_events(limit=5)
        finally:
            stop.set()
            for other in others:
                other.join(30)

        assert failures == []
        deliver()
        assert get_last_archived_position() > past.upto
        assert integrity.check_all(past.folder()) == []
        assert counters.reconcile() == []


def create_transitions() -> None:
    worker = world.created("UetWorker", worker_type="test")
    world.fire(worker, "initialization_completed")
    world.fire(worker, "task_assigned")


def test_the_doctor_reports_a_missing_archive_file(past: Past) -> None:
    assert passes("archive")
    (record,) = archive_old_events()
    assert passes("archive")

    (past.folder() / record.file).rename(past.folder() / "elsewhere")

    level, message = get_problem("archive")
    assert (level, record.file in message) == ("error", True)
