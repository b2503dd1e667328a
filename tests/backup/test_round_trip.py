"""An export restores a database that verifies; a modified export restores nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from statecore import tasks, transitions
from statecore.artifacts import changes
from statecore.artifacts.changes import Place
from statecore.artifacts.upload import Upload
from statecore.delivery.sinks import counters
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.journal_file import JournalFile
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event, Position, digest, proofs
from statecore.journal.position import head
from statecore.kernel.actors import THE_SYSTEM
from statecore.operations import backup, integrity
from statecore.operations.backup.manifest import CHECKPOINT_FILE, EVENTS_FILE, MANIFEST_FILE, Manifest, list_exports
from statecore.records import Webhook
from statecore.scheduling.agent_job_log import append_event
from statecore.storage import trigger_check
from statecore.storage.files import sha256
from statecore_client.cli.main import main
from statecore_client.transparency.checkpoint import open_checkpoint
from tests.backup.tables import flush_database, read_all_rows, rewrite_rows
from tests.support import world
from tests.support.sequencer import catch_up, lines, ordered, sign
from tests.support.webhooks import subscribe

pytestmark = pytest.mark.django_db(transaction=True)


def make_history() -> None:
    task = world.running_task()
    upload = Upload(io.BytesIO(b"data"), hashlib.sha256(b"data").hexdigest(), 4)
    changes.put(Place(task.pk, "x", world.operator(), None), upload)
    result = {"text": "ä", "seconds": 1.50, "none": None}
    world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt, result=result)
    world.task(depends_on=[world.task().pk])
    job = world.created("AgentJob")
    append_event(job.pk, "tool_called", actor=world.AGENT, payload={"tool": "git"})
    world.patch()
    world.forced(world.run(metadata={"text": 'ä\u2028\n"'}), "failed")


def make_delivered_history() -> None:
    make_history()
    catch_up(Counters(), Tree())


def test_an_export_and_restore_recover_every_row(home: Path) -> None:
    make_delivered_history()
    make_history()  # has no positions yet when the export is made
    subscribe("https://ci.example.com/hook")  # belongs to an account, which this export does not have
    before = read_all_rows()
    folder = backup.export(home / "backup")
    flush_database()

    last = backup.restore(folder).last_position

    assert read_all_rows() == before
    assert not Webhook.objects.exists()
    assert last + 1 == head() == len(ordered()), "the epoch begins with an event"
    assert integrity.check_all() == []
    assert trigger_check.find_problems(connection) == []


def test_a_restored_database_accepts_new_transitions(home: Path) -> None:
    make_delivered_history()
    make_history()
    backup.export(home / "backup")
    flush_database()
    backup.restore(home / "backup")

    make_history()
    catch_up(Counters(), Tree())

    assert len(ordered()) == Event.objects.count()
    assert counters.reconcile() == []
    assert integrity.check_all() == []


def test_a_chain_of_incremental_exports_restores(home: Path) -> None:
    make_delivered_history()
    make_history()
    first = Manifest.read(backup.export(home / "backup"))
    catch_up(Counters(), Tree())
    newest = backup.export(home / "backup")
    second = Manifest.read(newest)
    before = read_all_rows()
    flush_database()

    assert second.first_position == first.last_position + 1
    assert (first.waiting, second.waiting) == (second.events, 0)
    assert (second.tree_size, second.root) != (first.tree_size, first.root)
    backup.restore(home / "backup")
    assert read_all_rows() == before


def test_every_export_contains_the_newest_checkpoint_and_can_be_verified_with_it(home: Path) -> None:
    make_delivered_history()
    sign()
    key = proofs.get_key()
    for _ in range(2):
        folder = backup.export(home / "backup")
        text = (folder / CHECKPOINT_FILE).read_text()
        assert text == (home / CHECKPOINT_FILE).read_text()
        assert open_checkpoint(text, key).size == head()
        assert Manifest.read(folder).files[CHECKPOINT_FILE]["sha256"] == sha256(folder / CHECKPOINT_FILE)
        world.run()
        sign()
    first, *_others = list_exports(home / "backup")
    words = ["verify", "--key", str(key), "--checkpoint", str(first / CHECKPOINT_FILE), str(first / EVENTS_FILE)]
    assert main(words) == 0


def test_a_full_export_starts_at_the_first_position(home: Path) -> None:
    make_delivered_history()
    backup.export(home / "backup")
    folder = backup.export(home / "backup", everything=True)

    assert Manifest.read(folder).first_position == 1
    assert Manifest.read(folder).previous is None


def test_exports_continue_from_an_older_export_that_was_restored(home: Path) -> None:
    make_delivered_history()
    older = backup.export(home / "backup")
    make_history()
    catch_up(Counters(), Tree())
    never_happened = backup.export(home / "backup")
    flush_database()
    backup.restore(older)
    make_history()
    catch_up(Counters(), Tree())

    newest = Manifest.read(backup.export(home / "backup"))
    before = read_all_rows()
    flush_database()
    backup.restore(home / "backup")

    assert newest.previous == older.name != never_happened.name
    assert read_all_rows() == before


def test_the_journal_file_restarts_after_an_older_export_was_restored(home: Path) -> None:
    make_history()
    catch_up(JournalFile())
    older = backup.export(home / "backup")
    make_history()
    catch_up(JournalFile())
    later = lines()
    flush_database()
    backup.restore(older)
    make_history()
    catch_up(JournalFile())

    (set_aside,) = home.glob("transitions-until-*.jsonl")
    assert [line["event_id"] for line in lines()] == ordered()
    assert len(set_aside.read_bytes().splitlines()) == len(later)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL counts transactions")
def test_a_restore_leaves_no_index_to_rebuild(home: Path) -> None:
    """Transaction ids of events are cleared only when another database server assigned them."""
    make_delivered_history()
    folder = backup.export(home / "backup")
    flush_database()
    backup.restore(folder)
    before = index_file_number()

    catch_up(Counters())

    assert index_file_number() == before


def index_file_number() -> int:
    """Return the index's file number, which changes whenever the index is rebuilt."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_filenode('event_written_in')")
        return int(cursor.fetchone()[0])


def replace_bytes(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"operator", b"intruder")))


def with_changed_body(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["body"] = lines[0]["body"].replace("system", "intruder")
    return lines


def with_changed_state(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["state"] = "cancelled"
    return lines


def with_empty_body(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["body"] = "{}"
    lines[0]["hash"] = digest("{}")
    return lines


def with_invalid_timestamp(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["created_at"] = "yesterday"
    return lines


def change_manifest(folder: Path, **members: Any) -> None:
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest | members))


def truncate_file(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-20])
    files = json.loads((folder / MANIFEST_FILE).read_text())["files"]
    change_manifest(folder, files=files | {name: {**files[name], "sha256": sha256(path)}})


TAMPERING = {
    "an event with missing fields": (
        lambda folder: rewrite_rows(folder, "events.jsonl.gz", with_empty_body), "malformed",
    ),
    "a row with missing columns": (
        lambda folder: rewrite_rows(folder, "statecore_task.jsonl.gz", lambda lines: [{}]), "malformed",
    ),
    "a line that is not an object": (
        lambda folder: rewrite_rows(folder, "statecore_run.jsonl.gz", lambda lines: [7]), "malformed",
    ),
    "an invalid timestamp": (
        lambda folder: rewrite_rows(folder, "statecore_task.jsonl.gz", with_invalid_timestamp), "malformed",
    ),
    "a truncated file": (lambda folder: truncate_file(folder, "events.jsonl.gz"), "malformed"),
    "a non-numeric position": (lambda folder: change_manifest(folder, last_position="x"), "malformed|manifest"),
    "a file list without names": (lambda folder: change_manifest(folder, files=["x"]), "malformed"),
    "a changed file": (
        lambda folder: replace_bytes(folder / "events.jsonl.gz"), "does not match its hash in the manifest",
    ),
    "a missing file": (lambda folder: (folder / "events.jsonl.gz").unlink(), "is missing"),
    "an unreadable manifest": (lambda folder: (folder / MANIFEST_FILE).write_text("{"), "is unreadable"),
    "a rewritten event": (
        lambda folder: rewrite_rows(folder, "events.jsonl.gz", with_changed_body), "does not match its hash",
    ),
    "a removed last event": (
        lambda folder: rewrite_rows(folder, "events.jsonl.gz", lambda lines: lines[:-1]), "does not verify",
    ),
    "a row that no event explains": (
        lambda folder: rewrite_rows(folder, "statecore_task.jsonl.gz", with_changed_state), "does not verify|refuse",
    ),
    "a removed tree": (
        lambda folder: rewrite_rows(folder, "statecore_treehashes.jsonl.gz", lambda lines: []),
        "the tree ends at position 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", TAMPERING)
def test_a_modified_export_restores_nothing(home: Path, change: str) -> None:
    make_delivered_history()
    folder = backup.export(home / "backup")
    flush_database()
    tamper, message = TAMPERING[change]
    tamper(folder)

    with pytest.raises(CommandError, match=message):
        call_command("restore", str(folder))

    assert not Event.objects.exists()
    assert not Position.objects.exists()
    assert trigger_check.find_problems(connection) == []


def test_a_missing_export_in_a_chain_is_named(home: Path) -> None:
    make_delivered_history()
    first = backup.export(home / "backup")
    backup.export(home / "backup")
    first.rename(home / "elsewhere")
    flush_database()

    with pytest.raises(backup.RestoreFailed, match="which is missing"):
        backup.restore(home / "backup")


def test_a_damaged_export_is_not_continued(home: Path) -> None:
    make_delivered_history()
    before = read_all_rows()
    first, damaged = backup.export(home / "backup"), backup.export(home / "backup")
    (damaged / MANIFEST_FILE).write_text("{")

    newest = backup.export(home / "backup")

    assert Manifest.read(newest).previous == first.name
    flush_database()
    backup.restore(newest)
    assert read_all_rows() == before


def test_a_restore_refuses_a_database_with_data(home: Path) -> None:
    make_delivered_history()
    folder = backup.export(home / "backup")

    with pytest.raises(backup.RestoreFailed, match="not empty"):
        backup.restore(folder)


def test_the_daily_task_and_the_command_write_to_the_backup_folder(home: Path, settings, capsys) -> None:
    settings.STATECORE_BACKUP_DIR = home / "backup"
    make_delivered_history()
    tasks.export_journal()
    call_command("export")
    call_command("export", to=home / "other")

    assert len(list_exports(home / "backup")) == 2
    assert len(list_exports(home / "other")) == 1
    assert not list(home.rglob("*.part"))


def test_an_export_is_a_consistent_snapshot(home: Path) -> None:
    """A transition written during the export is included completely or not at all."""
    worker = world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed")
    catch_up(Counters())
    stop = threading.Event()

    def write() -> None:
        try:
            while not stop.is_set():
                for trigger in ("task_assigned", "task_completed"):
                    transitions.transition(type(worker), worker.pk, trigger, actor=THE_SYSTEM)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            catch_up(Counters())
            folder = backup.export(home / "backup")
    finally:
        stop.set()
        writer.join(30)
    flush_database()

    backup.restore(folder)
    assert integrity.check_all() == []
