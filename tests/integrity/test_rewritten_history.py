"""The attack: SQL rewrites the history and recomputes all that depends on it, so that the database alone verifies."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import orjson
import pytest
from django.core.management import CommandError, call_command

from statecore.delivery.sinks.journal_file import JournalFile
from statecore.journal import Event, Position, SignedCheckpoint, parse_event
from statecore.operations import backup, doctor, integrity
from statecore.project import startup
from statecore.project.refusal import Refused
from statecore_client.transparency.notes import SignerKey
from tests.integrity.rewriting import Forgery, delete_checkpoints, read_history, rewrite
from tests.support import emptying, world
from tests.support.sequencer import catch_up, sign

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def journal(home: Path) -> int:
    """A signed journal with a run that ada forced; returns the position of that event."""
    world.workstream()
    world.forced(world.run(), "failed")
    world.task()
    catch_up(JournalFile())
    sign()
    return Position.objects.get(kind="override").position


def blame_mallory(history: list[Forgery]) -> None:
    for forgery in history:
        if forgery.members["kind"] == "override":
            forgery.members["actor"] = "mallory"
            forgery.members["details"]["operator"] = "mallory"


def run_integrity(*words: str | Path) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("integrity", *map(str, words), stdout=out)
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue()
    return 0, out.getvalue()


def attack() -> None:
    rewrite(blame_mallory)
    delete_checkpoints()
    assert Event.objects.get(kind="override").actor == "mallory"


def test_the_database_alone_does_not_reveal_the_attack(journal: int, home: Path, tmp_path: Path, settings) -> None:
    """Shows that the forgery is good: without the files outside, nothing is found."""
    attack()
    settings.STATECORE_HOME = tmp_path
    assert integrity.check_all() == []


def test_attack_5_a_rewritten_history_is_found_in_the_home_directory(journal: int, home: Path) -> None:
    """`integrity`, its quick form and `doctor` use the files in the home directory by default."""
    attack()

    for words in ([], ["--recent"]):
        code, output = run_integrity(*words)
        assert code == 1
        assert f"transitions.jsonl: the event at position {journal} differs from the database" in output
        assert "differs from the one that was signed" in output
    for check in ("tree", "journal file", "integrity"):
        assert "error" in [result.level for result in doctor.run_checks([check])], check


@pytest.mark.parametrize("kept", ["checkpoint", "transitions.jsonl"])
def test_attack_5_each_file_in_the_home_directory_is_enough(journal: int, home: Path, kept: str) -> None:
    for path in (home / "checkpoint", home / "transitions.jsonl"):
        if path.name != kept:
            path.unlink()
    attack()

    code, output = run_integrity()
    assert code == 1
    assert "differs from the" in output


@pytest.mark.parametrize("kind", ["checkpoint", "journal file", "export", "folder of exports"])
def test_attack_5_a_rewritten_history_is_found_against_a_copy(
    journal: int, home: Path, tmp_path: Path, settings, kind: str
) -> None:
    copies = {
        "checkpoint": tmp_path / "checkpoint",
        "journal file": tmp_path / "transitions.jsonl",
        "export": backup.export(tmp_path / "exports"),
        "folder of exports": tmp_path / "exports",
    }
    for name in ("checkpoint", "transitions.jsonl"):
        (home / name).rename(tmp_path / name)
    assert run_integrity("--against", copies[kind]) == (0, "0 errors, 0 warnings\n")

    attack()
    assert integrity.check_all() == [], "the database alone verifies"
    code, output = run_integrity("--against", copies[kind])

    assert code == 1
    if kind == "checkpoint":
        assert f"first at a position from 1 to {Position.objects.count()}" in output
    else:
        assert f"the event at position {journal} differs from the database" in output


def test_older_checkpoints_narrow_the_place_down(journal: int, home: Path, tmp_path: Path) -> None:
    signed = Position.objects.count()
    SignedCheckpoint.objects.update(cosignatures="— kept AAAAAAAA\n")
    world.forced(world.run(), "failed")
    sign()
    (home / "checkpoint").rename(tmp_path / "checkpoint")
    rewrite(lambda history: blame_mallory(history[signed:]))

    _code, output = run_integrity("--against", tmp_path / "checkpoint")
    assert f"first at a position from {signed + 1} to {signed + 2}" in output


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing", None, "cannot be read"),
        ("empty", b"", "is empty"),
        ("text", b"hello", "is no checkpoint of this journal"),
        ("binary", b"\xff\xfe", "is no checkpoint of this journal"),
    ],
)
def test_a_file_that_is_no_copy_is_refused(
    journal: int, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError, match=sentence):
        run_integrity("--against", tmp_path / name)
    with pytest.raises(CommandError, match="There is no export"):
        run_integrity("--against", tmp_path)


def test_a_checkpoint_of_another_key_is_refused_and_one_of_a_named_key_accepted(
    journal: int, home: Path, tmp_path: Path
) -> None:
    (home / "checkpoint").rename(tmp_path / "checkpoint")
    key = SignerKey.parse((home / "journal.key").read_text()).verifier
    (home / "journal.key").unlink()
    other = SignerKey.generate("another.example/journal").verifier
    with pytest.raises(CommandError, match="no checkpoint of this journal"):
        run_integrity("--against", tmp_path / "checkpoint", "--key", str(other))
    assert run_integrity("--against", tmp_path / "checkpoint", "--key", str(key))[0] == 0


@pytest.mark.parametrize("content", [b"x", b"\xff"])
def test_a_damaged_checkpoint_file_is_found_and_stops_the_signer(journal: int, home: Path, content: bytes) -> None:
    (home / "checkpoint").write_bytes(content)
    world.run()
    sign()

    assert (home / "checkpoint").read_bytes() == content
    assert "the file checkpoint does not verify" in run_integrity()[1]


def test_a_damaged_copy_is_reported_as_such(journal: int, home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    lines = (home / "transitions.jsonl").read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert "copy.jsonl: position 3 is missing" in run_integrity("--against", copy)[1]
    copy.write_bytes(b"".join([lines[0], lines[1].replace(b"system", b"sysadm"), *lines[2:]]))
    assert "copy.jsonl: it is damaged at position 2" in run_integrity("--against", copy)[1]
    (tmp_path / "copy.gz").write_bytes(b"\x1f\x8b torn")
    assert "copy.gz is unreadable" in run_integrity("--against", tmp_path / "copy.gz")[1]


def test_an_edited_journal_file_is_not_taken_for_a_rewritten_database(journal: int, home: Path) -> None:
    """The checkpoint shows which of the two was changed; a damaged file does not keep the processes from starting."""
    path = home / "transitions.jsonl"
    forged = read_history()[journal - 1]
    forged.members["actor"] = "mallory"
    lines = path.read_bytes().splitlines(keepends=True)
    event = Event.objects.get(kind="override")
    built = forged.build(event.sequence, event.prev_hash)
    lines[journal - 1] = orjson.dumps({"position": journal, **parse_event(built["body"], built["hash"])}) + b"\n"
    path.write_bytes(b"".join(lines))

    (finding,) = integrity.check_all()
    assert (finding.check, f"position {journal} differs" in finding.detail) == (integrity.JOURNAL_FILE_CHECK, True)
    startup.check_integrity(start_anyway=False)


def test_a_process_does_not_start_on_a_rewritten_history(journal: int) -> None:
    attack()
    with pytest.raises(Refused, match="does not verify"):
        startup.check_integrity(start_anyway=False)


def test_a_restore_sets_the_files_of_the_old_history_aside(journal: int, home: Path, tmp_path: Path) -> None:
    folder = backup.export(tmp_path)
    world.task()
    catch_up(JournalFile())
    sign()
    emptying.empty("default", emptying.read_group_permissions("default"))

    backup.restore(folder)
    assert [path.name.partition("-")[0] for path in sorted(home.glob("*-until-*"))] == ["checkpoint", "transitions"]
    assert integrity.check_all() == []
