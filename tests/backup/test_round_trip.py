"""An export restores a database that verifies, and one that was touched restores nothing."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from statecore import backup, door, integrity, tasks
from statecore.agent_events import append
from statecore.backup.manifest import NAME, Manifest
from statecore.backup.tables import LEFT_OUT, tables
from statecore.journal import Event, digest
from statecore.kernel import triggers
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.file_hash import sha256
from statecore.records import Position
from statecore.records.position import head
from statecore.sinks import counters
from statecore.sinks.counters import Counters
from statecore.sinks.journal_file import JournalFile
from statecore.sinks.seals import Seals, seal
from tests.support import world
from tests.support.sequencer import catch_up, lines, ordered

pytestmark = pytest.mark.django_db(transaction=True)


def work() -> None:
    task = world.running_task()
    world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt)
    world.task(depends_on=[world.task().pk])
    job = world.created("AgentJob")
    append(job.pk, "tool_called", actor=world.AGENT, payload={"tool": "git"})
    world.patch()
    world.forced(world.run(metadata={"text": 'ä\u2028\n"'}), "failed")


def sealed_work() -> None:
    work()
    catch_up(Counters(), Seals())
    seal(5)


def everything() -> dict[str, list[Any]]:
    """Every row of every table that a restore brings back."""
    found: dict[str, list[Any]] = {"positions": ordered()}
    found["events"] = sorted(Event.objects.values_list("event_id", "body", "hash", "timestamp"))
    for model in tables():
        found[model.__name__] = sorted(map(repr, model._base_manager.values_list()))
    return found


def emptied() -> None:
    with triggers.lowered(connection):
        call_command("flush", verbosity=0, interactive=False)


def test_a_round_trip_brings_everything_back(home: Path) -> None:
    sealed_work()
    work()  # not numbered when the export is made
    before = everything()
    folder = backup.export(home / "backup")
    emptied()

    last = backup.restore(folder).last_position

    assert everything() == before
    assert last == head() == len(ordered())
    assert integrity.check_all() == []
    assert triggers.missing(connection) == []


def test_a_restored_database_goes_on(home: Path) -> None:
    sealed_work()
    work()
    backup.export(home / "backup")
    emptied()
    backup.restore(home / "backup")

    work()
    catch_up(Counters(), Seals())

    assert len(ordered()) == Event.objects.count()
    assert counters.reconcile() == []
    assert integrity.check_all() == []


def test_an_export_continues_the_last_and_a_chain_restores(home: Path) -> None:
    sealed_work()
    work()
    first = Manifest.read(backup.export(home / "backup"))
    catch_up(Counters(), Seals())
    newest = backup.export(home / "backup")
    second = Manifest.read(newest)
    before = everything()
    emptied()

    assert second.first_position == first.last_position + 1
    assert (first.waiting, second.waiting) == (second.events, 0)
    assert second.seal is not None
    backup.restore(home / "backup")
    assert everything() == before


def test_all_exports_everything_again(home: Path) -> None:
    sealed_work()
    backup.export(home / "backup")
    folder = backup.export(home / "backup", everything=True)

    assert Manifest.read(folder).first_position == 1
    assert Manifest.read(folder).previous is None


def test_after_a_restore_to_an_older_moment_exports_go_on_from_there(home: Path) -> None:
    sealed_work()
    older = backup.export(home / "backup")
    work()
    catch_up(Counters(), Seals())
    never_happened = backup.export(home / "backup")
    emptied()
    backup.restore(older)
    work()
    catch_up(Counters(), Seals())

    newest = Manifest.read(backup.export(home / "backup"))
    before = everything()
    emptied()
    backup.restore(home / "backup")

    assert newest.previous == older.name != never_happened.name
    assert everything() == before


def test_the_journal_file_goes_on_after_a_restore_to_an_older_moment(home: Path) -> None:
    work()
    catch_up(JournalFile())
    older = backup.export(home / "backup")
    work()
    catch_up(JournalFile())
    later = lines()
    emptied()
    backup.restore(older)
    work()
    catch_up(JournalFile())

    (aside,) = home.glob("transitions-until-*.jsonl")
    assert [line["event_id"] for line in lines()] == ordered()
    assert len(aside.read_bytes().splitlines()) == len(later)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL counts transactions")
def test_a_restore_leaves_no_index_to_be_built_anew(home: Path) -> None:
    """Which transaction wrote an event is forgotten only where another server has counted it."""
    sealed_work()
    folder = backup.export(home / "backup")
    emptied()
    backup.restore(folder)
    before = index_on_the_disk()

    catch_up(Counters())

    assert index_on_the_disk() == before


def index_on_the_disk() -> int:
    """Another number each time it is built."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_filenode('event_written_in')")
        return int(cursor.fetchone()[0])


def changed(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"operator", b"somebody")))


def rewritten(folder: Path, name: str, change) -> None:
    """Somebody who knows about manifests."""
    path = folder / name
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in change(lines))))
    manifest = json.loads((folder / NAME).read_text())
    manifest["files"][name]["sha256"] = sha256(path)
    (folder / NAME).write_text(json.dumps(manifest))


def with_another_body(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["body"] = lines[0]["body"].replace("system", "nobody")
    return lines


def with_another_state(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["state"] = "cancelled"
    return lines


def with_less_in_the_body(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["body"] = "{}"
    lines[0]["hash"] = digest("{}")
    return lines


def with_another_moment(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[0]["created_at"] = "yesterday"
    return lines


def in_the_manifest(folder: Path, **members: Any) -> None:
    manifest = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps(manifest | members))


def cut_short(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-20])
    files = json.loads((folder / NAME).read_text())["files"]
    in_the_manifest(folder, files=files | {name: {**files[name], "sha256": sha256(path)}})


TAMPERING = {
    "an event that lacks its members": (
        lambda folder: rewritten(folder, "events.jsonl.gz", with_less_in_the_body), "malformed",
    ),
    "a row that lacks its columns": (
        lambda folder: rewritten(folder, "statecore_task.jsonl.gz", lambda lines: [{}]), "malformed",
    ),
    "a line that is no object": (
        lambda folder: rewritten(folder, "statecore_run.jsonl.gz", lambda lines: [7]), "malformed",
    ),
    "a moment that is none": (
        lambda folder: rewritten(folder, "statecore_task.jsonl.gz", with_another_moment), "malformed",
    ),
    "a file that was cut short": (lambda folder: cut_short(folder, "events.jsonl.gz"), "malformed"),
    "a position that is no number": (lambda folder: in_the_manifest(folder, last_position="x"), "malformed|manifest"),
    "files that are no names": (lambda folder: in_the_manifest(folder, files=["x"]), "malformed"),
    "a file that was changed": (lambda folder: changed(folder / "events.jsonl.gz"), "is not what its manifest says"),
    "a file that is missing": (lambda folder: (folder / "events.jsonl.gz").unlink(), "is missing"),
    "an unreadable manifest": (lambda folder: (folder / NAME).write_text("{"), "cannot be read"),
    "an event rewritten": (
        lambda folder: rewritten(folder, "events.jsonl.gz", with_another_body), "does not hash",
    ),
    "a last event removed": (
        lambda folder: rewritten(folder, "events.jsonl.gz", lambda lines: lines[:-1]), "does not verify",
    ),
    "a row that no event explains": (
        lambda folder: rewritten(folder, "statecore_task.jsonl.gz", with_another_state), "does not verify|refuse",
    ),
    "a seal removed": (lambda folder: rewritten(folder, "statecore_seal.jsonl.gz", lambda lines: []), "last seal"),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERING)
def test_an_export_that_was_touched_restores_nothing(home: Path, what: str) -> None:
    sealed_work()
    folder = backup.export(home / "backup")
    emptied()
    tamper, words = TAMPERING[what]
    tamper(folder)

    with pytest.raises(CommandError, match=words):
        call_command("restore", str(folder))

    assert not Event.objects.exists()
    assert not Position.objects.exists()
    assert triggers.missing(connection) == []


def test_an_export_in_the_middle_of_a_chain_that_is_missing_is_named(home: Path) -> None:
    sealed_work()
    first = backup.export(home / "backup")
    backup.export(home / "backup")
    first.rename(home / "elsewhere")
    emptied()

    with pytest.raises(backup.CannotRestore, match="which is not there"):
        backup.restore(home / "backup")


def test_an_export_that_was_damaged_is_not_the_last(home: Path) -> None:
    sealed_work()
    before = everything()
    first, damaged = backup.export(home / "backup"), backup.export(home / "backup")
    (damaged / NAME).write_text("{")

    newest = backup.export(home / "backup")

    assert Manifest.read(newest).previous == first.name
    emptied()
    backup.restore(newest)
    assert everything() == before


def test_a_database_that_is_not_empty_is_left_alone(home: Path) -> None:
    sealed_work()
    folder = backup.export(home / "backup")

    with pytest.raises(backup.CannotRestore, match="not empty"):
        backup.restore(folder)


def test_the_daily_task_and_the_command_write_to_the_backup_folder(home: Path, settings, capsys) -> None:
    settings.STATECORE_BACKUP_DIR = home / "backup"
    sealed_work()
    tasks.export_journal()
    call_command("export")
    call_command("export", to=home / "other")

    assert len(backup.manifest.exports(home / "backup")) == 2
    assert len(backup.manifest.exports(home / "other")) == 1
    assert not list(home.rglob("*.part"))


def test_every_table_is_exported_or_left_out_on_purpose() -> None:
    from django.apps import apps

    ours = set(apps.get_app_config("statecore").get_models(include_auto_created=True))
    assert set(tables()) | set(LEFT_OUT) == ours


def test_an_export_is_of_one_moment(home: Path) -> None:
    """What is written while it runs is in it whole or not at all."""
    worker = world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed")
    catch_up(Counters())
    over = threading.Event()

    def write() -> None:
        try:
            while not over.is_set():
                for trigger in ("task_assigned", "task_completed"):
                    door.transition(type(worker), worker.pk, trigger, actor=THE_SYSTEM)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            catch_up(Counters())
            folder = backup.export(home / "backup")
    finally:
        over.set()
        writer.join(30)
    emptied()

    backup.restore(folder)
    assert integrity.check_all() == []
