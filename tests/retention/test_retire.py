"""Old events go into a file that was verified, and everything that is left still adds up."""

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

from statecore import integrity, retiring
from statecore.journal import Event, digest
from statecore.kernel import latch, triggers
from statecore.kernel.clock import now
from statecore.kernel.file_hash import sha256
from statecore.records import Anchor, AuditNote, Position, Retirement, Seal, SinkCursor
from statecore.records.position import head
from statecore.records.retirement import horizon
from statecore.retiring.writing import path_of
from statecore.sinks import counters
from statecore.sinks.alerts import Alerts
from statecore.sinks.seals import Seals
from tests.doctor.asking import complaint, is_content_with
from tests.retention.past import REASON, Past, later, numbered, retired, sealed
from tests.support import world
from tests.support.sequencer import catch_up, lines

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_old_is_in_a_file_and_no_longer_in_the_database(past: Past) -> None:
    before = {event.event_id: event.body for event in Event.objects.all()}
    placed = dict(Position.objects.filter(position__lte=past.upto).values_list("position", "event_id"))

    (record,) = retired()

    assert (record.first_position, record.last_position) == (1, past.upto)
    assert not Position.objects.filter(position__lte=past.upto).exists()
    assert not Event.objects.filter(event_id__in=placed.values()).exists()
    assert Event.objects.count() == len(before) - past.upto
    told = [json.loads(line) for line in gzip.decompress((past.folder() / record.file).read_bytes()).splitlines()]
    assert [(line["position"], line["body"]) for line in told] == [
        (position, before[event_id]) for position, event_id in sorted(placed.items())
    ]
    assert all(digest(line["body"]) == line["hash"] for line in told)
    assert record.sha256 == sha256(past.folder() / record.file)


def test_everything_still_verifies_with_and_without_the_files(past: Past) -> None:
    retired()

    assert integrity.check_all() == []
    assert integrity.check_all(past.folder()) == []
    assert integrity.check_recent() == []
    assert integrity.check_stretch(0, head()) == []
    assert integrity.check_entity("uet_worker", past.live.pk) == []
    assert integrity.check_entity("task", past.ended.pk) == []


def test_the_counters_are_still_those_of_a_fresh_count(past: Past) -> None:
    retired()

    assert counters.reconcile() == []
    later()
    assert counters.reconcile() == []


def test_what_is_retired_while_it_is_counted_is_not_taken_for_missing(past: Past) -> None:
    records: list[Retirement] = []

    def retiring_first(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if "e.from_state" in sql and not records:
            records.extend(retired())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(retiring_first):
        assert counters.reconcile() == []
    assert records
    assert counters.reconcile() == []


def test_a_chain_goes_on_from_its_anchor(past: Past) -> None:
    retired()
    world.fire(past.live, "task_completed")
    world.forced(world.workstream(), "failed")
    numbered()
    sealed(1_000)
    later()

    retired()

    assert Anchor.objects.filter(entity_id=past.live.pk).count() == 2
    assert Retirement.objects.count() == 2
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []


def test_it_is_done_in_strides(past: Past) -> None:
    records = retired(most=5)

    assert len(records) == len(list(past.folder().glob("*.gz"))) > 2
    assert all(record.last_position - record.first_position < 5 for record in records)
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []
    assert horizon() == past.upto


def test_who_did_it_and_why_is_on_record(past: Past) -> None:
    (record,) = retired()

    (note,) = AuditNote.objects.filter(kind="retired")
    assert (record.operator, record.reason, note.actor, note.facts["reason"]) == ("ada", REASON, "ada", REASON)
    assert (note.facts["file"], note.facts["sha256"]) == (record.file, record.sha256)


def test_the_newest_seal_stays(past: Past) -> None:
    retired()

    assert retired() == []
    assert Seal.objects.order_by("-pk")[0].first_position > horizon()


def test_what_a_sink_has_not_read_stays(past: Past) -> None:
    SinkCursor.objects.filter(sink="counters").update(position=7)

    assert [record.last_position for record in retired()] == [5]


def test_a_new_sink_begins_after_what_was_retired(past: Past) -> None:
    retired()

    catch_up(Alerts(), Seals())

    assert SinkCursor.objects.get(sink="alerts").position == head()


def test_the_journal_file_is_written_anew_from_what_is_left(past: Past, home: Path) -> None:
    retired()
    numbered()
    assert [line["position"] for line in lines()] == list(range(1, head() + 1))

    (home / "transitions.jsonl").rename(home / "elsewhere.jsonl")
    numbered()
    later()

    assert [line["position"] for line in lines()] == list(range(horizon() + 1, head() + 1))


def test_a_quiet_journal_goes_on(past: Past) -> None:
    retired()
    later()
    later()
    retired()

    world.task()
    numbered()

    assert head() == horizon() + Event.objects.count()
    assert integrity.check_all(past.folder()) == []


REFUSED = {
    "no permission": ({"by": lambda: world.operator_with("view_event")}, "lacks the permission"),
    "no reason": ({"reason": lambda: "too old"}, "a reason has"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_it_takes_a_permission_and_a_reason(past: Past, why: str) -> None:
    options, words = REFUSED[why]

    with pytest.raises(retiring.CannotRetire, match=words):
        retired(**{name: made() for name, made in options.items()})

    assert not Retirement.objects.exists()


def test_the_permission_is_enough(past: Past) -> None:
    assert retired(by=world.operator_with("retire_events"))


def test_nothing_is_deleted_without_the_latch(past: Past) -> None:
    for statement in ("DELETE FROM statecore_event", "DELETE FROM statecore_position"):
        with pytest.raises(IntegrityError, match="ever deleted"), world.open_gate():
            connection.cursor().execute(statement)


@pytest.mark.parametrize("table", ["statecore_retirement", "statecore_anchor", "statecore_seal", "statecore_task"])
def test_the_latch_opens_nothing_else(past: Past, table: str) -> None:
    retired()

    with (
        pytest.raises(IntegrityError, match="ever deleted"),
        transaction.atomic(),
        latch.opened(connection, latch.RETIRING),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("change", ["actor = 'nobody'", "body = replace(body, 'details', 'Details')", "hash = 'x'"])
def test_what_does_not_verify_is_not_retired(past: Past, change: str) -> None:
    with triggers.lowered(connection), connection.cursor() as cursor:
        cursor.execute(f"UPDATE statecore_event SET {change} WHERE entity_id = %s", [past.ended.pk])

    with pytest.raises(retiring.CannotRetire, match="does not verify"):
        retired()

    assert not Retirement.objects.exists()
    assert not list(past.folder().glob("*.gz"))


def test_a_file_that_is_there_and_wrong_is_not_believed(past: Past) -> None:
    path = path_of(past.folder(), [Seal.objects.get(first_position=1)])
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"{}\n"))

    with pytest.raises(retiring.CannotRetire, match="not what it should be"):
        retired(most=5)

    assert not Retirement.objects.exists()


def test_the_command_is_off_until_it_is_set(past: Past) -> None:
    with pytest.raises(CommandError, match="STATECORE_RETENTION_DAYS is not set"):
        call_command("retire", operator="ada", reason=REASON)


def test_the_command_retires_what_is_older_than_the_setting(past: Past, settings, capsys) -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser("ada")
    settings.STATECORE_RETENTION_DAYS = 30
    call_command("retire", operator="ada", reason=REASON)
    assert "nothing" in capsys.readouterr().out

    with time_machine.travel(now() + timedelta(days=31)):
        call_command("retire", operator="ada", reason=REASON, dry_run=True)
        assert f"{past.upto} events, positions 1 to {past.upto}" in capsys.readouterr().out
        assert not Retirement.objects.exists()

        with pytest.raises(CommandError, match="no user"):
            call_command("retire", operator="nobody", reason=REASON)
        call_command("retire", operator="ada", reason=REASON)

    assert f"100 %: positions 1 to {past.upto}, retired to" in capsys.readouterr().out
    assert horizon() == past.upto
    call_command("integrity", archives=past.folder())
    assert capsys.readouterr().out.startswith("0 errors")


def test_others_go_on_working_meanwhile(past: Past) -> None:
    """Somebody writes, somebody numbers and seals, somebody verifies, and all of it holds."""
    over, wrong = threading.Event(), []

    def meanwhile(work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                while not over.is_set():
                    work()
            except Exception as error:  # noqa: BLE001 - told by the test
                wrong.append(error)
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    others = [meanwhile(write), meanwhile(lambda: wrong.extend(integrity.check_all()))]
    try:
        for _ in range(3):
            later()
            retired(most=5)
    finally:
        over.set()
        for other in others:
            other.join(30)

    assert wrong == []
    numbered()
    assert horizon() > past.upto
    assert integrity.check_all(past.folder()) == []
    assert counters.reconcile() == []


def write() -> None:
    worker = world.created("UetWorker", worker_type="test")
    world.fire(worker, "initialization_completed")
    world.fire(worker, "task_assigned")


def test_the_doctor_misses_a_file_that_is_gone(past: Past) -> None:
    assert is_content_with("retired")
    (record,) = retired()
    assert is_content_with("retired")

    (past.folder() / record.file).rename(past.folder() / "elsewhere")

    level, says = complaint("retired")
    assert (level, record.file in says) == ("error", True)
