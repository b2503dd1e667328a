"""transitions.jsonl: delivery resumes from the last line of the file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import call_command

from statecore.delivery.sequencer import measure_lag
from statecore.delivery.sinks.journal_file import JournalFile, Stamp
from statecore.journal import parse_event
from statecore.journal.home_files import BLOCK_SIZE, list_tampered
from statecore.journal.position import head
from statecore.operations import integrity
from statecore.records import Alert, SinkCursor
from statecore.records.sink_cursor import get_position
from tests.doctor.results import get_problem
from tests.integrity.rewriting import read_history, rewrite
from tests.retention.past import Past, archive_old_events
from tests.support import world
from tests.support.sequencer import catch_up, lines, positions, sequencer, sign

pytestmark = pytest.mark.django_db(transaction=True)


def file_of(home: Path) -> Path:
    return home / "transitions.jsonl"


def test_a_line_is_the_serialized_event_with_its_position(home: Path) -> None:
    run = world.run()
    catch_up(JournalFile())

    (line,) = lines()
    assert line == {"position": 1, **world.last_event(run)}


@pytest.mark.parametrize("ending", [b"{", b'{"position":', b"\x00\x00\n", b'{"position":99}\n', b'["x"]\n'])
def test_a_torn_end_is_cut_off(home: Path, ending: bytes) -> None:
    world.run()
    catch_up(JournalFile())
    with file_of(home).open("ab") as file:
        file.write(ending)
    world.run()
    catch_up(JournalFile())

    assert positions(lines()) == list(range(1, head() + 1))


def test_the_file_wins_over_a_cursor_that_is_behind(home: Path) -> None:
    world.workstream()
    catch_up(JournalFile())
    SinkCursor.objects.update(position=1)
    world.run()
    catch_up(JournalFile())

    assert positions(lines()) == list(range(1, head() + 1))


def test_a_file_ahead_of_its_cursor_has_no_lag(home: Path) -> None:
    """The sink was killed after it wrote the file and before it moved its cursor."""
    world.workstream()
    catch_up(JournalFile())
    SinkCursor.objects.update(position=0)
    catch_up(JournalFile())

    assert measure_lag()[JournalFile.name] == 0
    assert get_position(JournalFile.name) == head()


def test_the_file_wins_over_a_cursor_that_is_ahead(home: Path) -> None:
    world.workstream()
    catch_up(JournalFile())
    whole = file_of(home).read_bytes()
    file_of(home).write_bytes(whole.partition(b"\n")[0] + b"\n")
    catch_up(JournalFile())

    assert file_of(home).read_bytes() == whole


def test_a_removed_file_is_rewritten(home: Path) -> None:
    world.workstream()
    catch_up(JournalFile())
    whole = file_of(home).read_bytes()
    file_of(home).unlink()
    world.run()
    catch_up(JournalFile())

    assert file_of(home).read_bytes().startswith(whole)


def test_recovery_reads_only_the_tail(home: Path) -> None:
    while not file_of(home).exists() or file_of(home).stat().st_size < 3 * BLOCK_SIZE:
        for _ in range(20):
            world.run(metadata={"text": "x" * 3_000})
        catch_up(JournalFile())
    whole = file_of(home).read_bytes()
    # Recovery does not read the beginning again; the scan finds damage there.
    damaged = b"?" * 100 + whole[100:]
    file_of(home).write_bytes(damaged)
    sink = JournalFile()
    assert sink.recover(head()) == head()
    sink.close()

    assert file_of(home).read_bytes() == damaged


def test_a_file_of_another_database_is_set_aside_and_rewritten(home: Path) -> None:
    world.run()
    catch_up(JournalFile())
    whole, other = file_of(home).read_bytes(), b'{"position":1,"event_id":"evt_of_another_database"}\n'
    file_of(home).write_bytes(other)
    catch_up(JournalFile())

    assert file_of(home).read_bytes() == whole
    assert [path.read_bytes() for path in home.glob("transitions-until-*.jsonl")] == [other]


class Running:
    """A sequencer with a journal file that was written and is still open."""

    def __init__(self, home: Path) -> None:
        world.workstream()
        world.forced(world.run(), "failed")
        self.path, self.sequencer = file_of(home), sequencer(JournalFile())
        self.round()
        self.whole = self.path.read_bytes()

    def round(self) -> None:
        """Runs until nothing is left to do, ticks, and lets a failed sink recover at once."""
        (feed,) = self.sequencer.feeds
        feed.not_before = self.sequencer.next_tick = 0.0
        while self.sequencer.run_round():
            pass

    def repair(self) -> None:
        self.round()
        self.round()

    def kept(self) -> list[bytes]:
        return [path.read_bytes() for path in list_tampered()]


@pytest.fixture
def running(home: Path) -> Iterator[Running]:
    sign()
    made = Running(home)
    sign()
    yield made
    for feed in made.sequencer.feeds:
        feed.close()


def edit(path: Path, change: Callable[[list[bytes]], None]) -> None:
    """Edits the file in place, as an editor that keeps the inode does."""
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    with path.open("r+b") as file:
        file.write(b"".join(lines))
        file.truncate()


def replace_word(lines: list[bytes]) -> None:
    lines[1] = lines[1].replace(b"system", b"sysadm")


def forge_line(lines: list[bytes]) -> None:
    """Changes the actor of an event and makes its hash match."""
    position, forged = len(lines), read_history()[-1]
    forged.members["actor"] = "bob"
    event = orjson.loads(lines[-1])
    built = forged.build(event["sequence"], event["prev_hash"])
    lines[-1] = orjson.dumps({"position": position, **parse_event(built["body"], built["hash"])}) + b"\n"


EDITS: dict[str, Callable[[list[bytes]], None]] = {
    "a changed word": replace_word,
    "a forged event": forge_line,
    "a removed line": lambda lines: lines.__delitem__(2),
    "a truncated file": lambda lines: lines.__delitem__(slice(2, None)),
    "a torn line": lambda lines: lines.__setitem__(-1, lines[-1][:20]),
    "an empty file": lambda lines: lines.clear(),
    "an added line": lambda lines: lines.append(lines[-1]),
    "swapped lines": lambda lines: lines.insert(0, lines.pop(1)),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_file_edited_while_the_sequencer_runs_is_repaired_and_kept(running: Running, name: str) -> None:
    edit(running.path, EDITS[name])
    edited = running.path.read_bytes()
    assert edited != running.whole
    running.repair()

    assert running.path.read_bytes() == running.whole
    assert running.kept() == [edited]
    (finding,) = integrity.check_recent()
    assert (finding.check, finding.severity) == (integrity.JOURNAL_FILE_CHECK, "error")
    assert list_tampered()[0].name in finding.detail
    alert = Alert.objects.get()
    assert (alert.rule, alert.key, alert.severity) == ("integrity", integrity.JOURNAL_FILE_CHECK, "critical")
    list_tampered()[0].unlink()
    call_command("integrity", stdout=StringIO())
    assert Alert.objects.get().resolved_at is not None


def test_a_file_edited_just_before_a_write_is_repaired(running: Running) -> None:
    """The write renews the times of the file, so they are compared before."""
    edit(running.path, replace_word)
    world.run()
    running.sequencer.next_tick = time.monotonic() + 3600
    while running.sequencer.run_round():
        pass
    running.repair()

    assert positions(lines()) == list(range(1, head() + 1))
    assert running.path.read_bytes().startswith(running.whole)
    assert len(running.kept()) == 1


def test_a_file_deleted_while_the_sequencer_runs_is_restored(running: Running) -> None:
    running.path.unlink()
    running.repair()

    assert running.path.read_bytes() == running.whole
    assert running.kept() == [b""], "an empty file is the trace of a deletion"
    assert "was deleted" in next(integrity.check_journal_file()).detail
    assert get_problem("journal file")[0] == "error"
    world.run()
    running.round()
    assert positions(lines()) == list(range(1, head() + 1))


def test_a_file_replaced_while_the_sequencer_runs_is_restored(running: Running) -> None:
    running.path.rename(running.path.with_name("elsewhere"))
    running.path.write_bytes(b"another file\n")
    running.repair()

    assert running.path.read_bytes() == running.whole
    assert running.kept() == [b"another file\n"]


def test_a_change_that_the_file_system_does_not_show_is_found_by_the_scan(running: Running) -> None:
    edit(running.path, replace_word)
    sink: Any = running.sequencer.feeds[0].sink
    sink.stamp = Stamp.read(running.path)
    running.repair()

    assert running.path.read_bytes() == running.whole
    assert len(running.kept()) == 1


def test_a_touched_file_is_scanned_and_left_alone(running: Running) -> None:
    os.utime(running.path, (0, 0))
    running.repair()

    assert running.kept() == []
    assert running.path.read_bytes() == running.whole


def test_a_rewritten_database_is_reported_and_does_not_change_the_file(running: Running) -> None:
    rewrite(lambda history: history[-1].members.update(actor="mallory"))
    running.repair()

    assert running.path.read_bytes() == running.whole
    assert running.kept() == []
    assert "copy" in {finding.check for finding in integrity.check_recent()}


def test_events_of_earlier_versions_are_not_taken_for_damage(home: Path) -> None:
    """They have no identity, but the journal file shows one that is null; or other bytes than this version rebuilds."""
    world.run()
    world.created("CircuitBreaker", id="tool-1")
    world.run()
    old, odd, _last = [forgery.members for forgery in read_history_after_numbering()]
    del old["details"]["identity"]
    odd["details"]["identity"] = ""
    odd["details"]["version"] = 7  # hidden by the version that every event has
    rewrite(
        lambda history: [forgery.members.update(changed) for forgery, changed in zip(history, (old, odd), strict=False)]
    )
    made = sequencer(JournalFile())
    for _ in range(3):
        made.next_tick = 0.0
        made.run_round()
    made.feeds[0].close()

    assert positions(lines()) == [1, 2, 3]
    assert lines()[0]["identity"] is None
    assert list_tampered() == []


def read_history_after_numbering() -> list[Any]:
    catch_up()
    return read_history()


def test_lines_of_archived_events_are_not_lost_by_a_deletion(home: Path) -> None:
    past = Past.create()
    archive_old_events()
    running = sequencer(JournalFile())
    running.run_round()
    whole = file_of(home).read_bytes()
    assert lines()[0]["position"] == 1 <= past.upto
    file_of(home).unlink()
    (feed,) = running.feeds
    for _ in range(3):
        feed.not_before = running.next_tick = 0.0
        running.run_round()
    feed.close()

    assert file_of(home).read_bytes() == whole
