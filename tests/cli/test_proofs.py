"""`prove` and `verify`: proofs from the server, checked without it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statecore.delivery.sinks.journal_file import JournalFile
from statecore.journal import Event, Position, proofs
from statecore.journal.events import MIRRORED
from statecore_client.transparency.evidence import MEMBERS, parse_line
from tests.cli.process import Statecore
from tests.support import world
from tests.support.sequencer import ROOT, catch_up, sign

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def journal(home: Path) -> Path:
    """A home directory with a journal file and a checkpoint."""
    task = world.running_task()
    world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt, output='ünïcode \\ " \u2028')
    world.forced(world.run(metadata={"z": [1.5, None, {"b": 1, "a": 2}]}), "failed")
    catch_up(JournalFile())
    sign()
    return home


def test_the_server_proves_an_event_and_the_command_line_verifies_it(
    statecore: Statecore, journal: Path, tmp_path: Path
) -> None:
    event = Event.objects.get(kind="override")
    key = statecore("prove", "--key").out.strip()
    (tmp_path / "proof.json").write_text(statecore("prove", event.pk).out)
    (tmp_path / "checkpoint").write_text(statecore("prove", "--checkpoint").out)

    verified = statecore("verify", "--key", key, str(tmp_path / "proof.json"), STATECORE_URL="", STATECORE_TOKEN="")
    assert f"position {Position.objects.get(event=event).position} of" in verified.out
    assert event.actor in verified.out
    statecore("verify", "--key", key, "--checkpoint", str(tmp_path / "checkpoint"), str(journal / "transitions.jsonl"))
    statecore("prove", code=2)
    statecore("prove", "evt_unknown", code=5)


def verify(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs `statecore verify` in an interpreter that cannot import Django."""
    program = "import sys; sys.modules['django'] = None; from statecore_client.cli.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, "verify", *map(str, words)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def key(journal: Path) -> str:
    return str(proofs.get_key())


def test_every_line_of_the_journal_file_rebuilds_its_canonical_bytes(journal: Path) -> None:
    bodies = dict(Position.objects.values_list("position", "event__body"))
    for line in (journal / "transitions.jsonl").read_bytes().splitlines():
        parsed = parse_line(line)
        assert parsed.body.decode() == bodies[parsed.position]
    assert MEMBERS == MIRRORED


def test_a_proof_is_verified_without_django(journal: Path, key: str, tmp_path: Path) -> None:
    proof: dict[str, Any] = proofs.prove_event(Event.objects.get(kind="override").pk)
    path = tmp_path / "proof.json"
    changes: dict[str, Any] = {
        "position": 1, "epoch": 2, "body": proof["body"].replace("ada", "bob"), "leaf_hash": "AAAA",
        "inclusion": proof["inclusion"][1:], "checkpoint": proof["checkpoint"].replace("\n1", "\n2", 1),
    }  # fmt: skip
    path.write_text(json.dumps(proof))
    assert verify("--key", key, path).returncode == 0
    for name, value in changes.items():
        path.write_text(json.dumps({**proof, name: value}))
        done = verify("--key", key, path)
        assert (done.returncode, bool(done.stderr)) == (1, True), (name, done)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"position": 1}', "\x00"])
def test_a_file_that_is_no_proof_is_refused(key: str, tmp_path: Path, content: str) -> None:
    (tmp_path / "proof.json").write_text(content)
    done = verify("--key", key, tmp_path / "proof.json")
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr


def test_a_wrong_key_or_file_is_a_usage_error(key: str, tmp_path: Path) -> None:
    assert verify("--key", "nonsense", tmp_path / "proof.json").returncode == 2
    assert verify("--key", key, tmp_path / "missing.json").returncode == 6


def rewrite(path: Path, change: Any) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))


CHANGES: dict[str, tuple[Any, str]] = {
    "an edited line": (lambda lines: lines.__setitem__(2, lines[2].replace(b"system", b"sysadm")), "match its hash"),
    "a removed line": (lambda lines: lines.pop(2), "position 3 is missing"),
    "a truncated file": (lambda lines: lines.pop(), "but .* positions were signed"),
    "a file that begins later": (lambda lines: lines.pop(0), "begin at position 2"),
    "a torn line": (lambda lines: lines.append(b'{"pos'), "not an event"),
    "no lines": (lambda lines: lines.clear(), "no events"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_journal_file_is_found(journal: Path, key: str, change: str) -> None:
    path = journal / "transitions.jsonl"
    words = ("--key", key, "--checkpoint", journal / "checkpoint", path)
    assert verify(*words).returncode == 0

    edit, message = CHANGES[change]
    rewrite(path, edit)
    done = verify(*words)

    assert done.returncode == 1, done
    assert re.search(message, done.stderr), done.stderr
