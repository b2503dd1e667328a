"""transitions.jsonl: delivery resumes from the last line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from statecore.delivery.sequencer import measure_lag
from statecore.delivery.sinks.journal_file import BLOCK_SIZE, JournalFile
from statecore.journal.position import head
from statecore.records import SinkCursor
from statecore.records.sink_cursor import get_position
from tests.support import world
from tests.support.sequencer import catch_up, lines, positions

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


def test_only_the_tail_is_read(home: Path) -> None:
    while not file_of(home).exists() or file_of(home).stat().st_size < 3 * BLOCK_SIZE:
        for _ in range(20):
            world.run(metadata={"text": "x" * 3_000})
        catch_up(JournalFile())
    whole = file_of(home).read_bytes()
    # The file is known to be complete up to the cursor, so its beginning is not read again.
    file_of(home).write_bytes(b"?" * 100 + whole[100:])
    world.run()
    catch_up(JournalFile())

    assert file_of(home).read_bytes()[100 : len(whole)] == whole[100:]
    assert b"\n" in file_of(home).read_bytes()[len(whole) :]


def test_a_file_of_another_database_is_set_aside_and_rewritten(home: Path) -> None:
    world.run()
    catch_up(JournalFile())
    whole, other = file_of(home).read_bytes(), b'{"position":1,"event_id":"evt_of_another_database"}\n'
    file_of(home).write_bytes(other)
    catch_up(JournalFile())

    assert file_of(home).read_bytes() == whole
    assert [path.read_bytes() for path in home.glob("transitions-until-*.jsonl")] == [other]


def test_a_second_writer_of_the_file_is_refused(home: Path) -> None:
    first = JournalFile()
    first.recover(0)
    second = JournalFile()
    with pytest.raises(BlockingIOError):
        second.recover(0)
    first.close()
    second.close()
