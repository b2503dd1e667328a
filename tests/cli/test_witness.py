"""`statecore witness`: two witnesses on other hosts, one of which is lied to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from statecore.journal import SignedCheckpoint, proofs
from statecore.journal.position import head
from statecore_client.transparency.witness import create_witness_key
from tests.cli.process import Result, Statecore
from tests.integrity.rewriting import delete_checkpoints, rewrite
from tests.support import site as sites
from tests.support import world
from tests.support.sequencer import sign
from tests.support.site import ROOT
from tests.support.waiting import until

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db(transaction=True)]

NAMES = ("witness.example/one", "witness.example/two")


@dataclass
class Host:
    """The host of a witness: its folder, and a command line with a token of scope read."""

    folder: Path
    statecore: Statecore

    def run(self, *words: str, code: int = 0) -> Result:
        return self.statecore("witness", "--folder", str(self.folder), *words, code=code)

    def examine(self, *words: str, code: int = 0) -> Result:
        return self.run("--key", str(proofs.get_key()), *words, code=code)


@pytest.fixture
def hosts(home: Path, redis_server: str, tmp_path: Path) -> Iterator[list[Host]]:
    keys = [create_witness_key(tmp_path / str(number), name) for number, name in enumerate(NAMES)]
    witnesses = ",".join(str(key.verifier) for key in keys)
    token = sites.token("read")
    world.workstream()
    sign()
    with sites.running(home, redis_server, STATECORE_HOME=str(home), STATECORE_WITNESSES=witnesses) as site:
        yield [Host(tmp_path / str(number), Statecore(site.url, token, tmp_path)) for number in range(len(NAMES))]


def grow() -> None:
    world.run()
    sign()


def test_two_witnesses_cosign_and_the_one_that_saw_the_truth_raises_the_alarm(
    hosts: list[Host], home: Path, tmp_path: Path
) -> None:
    """The attacker has the database, the home directory and the key, and shows the second witness another history."""
    one, two = hosts
    size = head()
    for host in hosts:
        assert f"cosigned position {size} of" in host.examine().out
    assert SignedCheckpoint.objects.get().list_witnesses() == set(NAMES)
    grow()
    one.examine()

    rewrite(lambda history: history[-1].members.update(actor="mallory"))
    delete_checkpoints()
    (home / "checkpoint").unlink()
    sign()
    assert f"cosigned position {size + 1} of" in two.examine().out, "this history extends everything that it has seen"

    notice = tmp_path / "notice"
    script = f"import pathlib, sys; pathlib.Path({str(notice)!r}).write_text(sys.stdin.read())"
    alarm = one.examine("--notify", f'{sys.executable} -c "{script}"', code=1)
    assert (
        f"ALARM: The journal shows a history of {size + 1} positions that contradicts the one of {size + 1}"
        in alarm.err
    )
    assert SignedCheckpoint.objects.get(size=size + 1).list_witnesses() == {NAMES[1]}
    assert json.loads(notice.read_text())["witness"] == NAMES[0]
    (evidence,) = one.folder.glob("contradiction-*")
    assert evidence.read_text().count("\nepoch ") == 2
    grow()
    one.examine("--notify", "missing-program", "--notify-url", "http://127.0.0.1:9/", code=1)


def test_a_witness_repeats_until_it_is_stopped(hosts: list[Host]) -> None:
    (one, _two), size = hosts, head()
    words = ("witness", "--folder", str(one.folder), "--key", str(proofs.get_key()), "--every", "1")
    process = one.statecore.start(*words, stderr=subprocess.DEVNULL)
    try:
        until(lambda: SignedCheckpoint.objects.filter(size=size).exclude(cosignatures="").exists())
        assert "another witness uses" in one.examine(code=3).err
        grow()
        until(lambda: SignedCheckpoint.objects.filter(size=size + 1).exclude(cosignatures="").exists())
    finally:
        process.terminate()
        process.wait(20)


def test_a_new_witness_prints_its_public_key(hosts: list[Host], tmp_path: Path) -> None:
    host = Host(tmp_path / "new", hosts[0].statecore)
    key = host.run("--new-key", "witness.example/new").out.strip()
    assert key.startswith("witness.example/new+")
    host.run("--new-key", "witness.example/new", code=3)
    host.run("--new-key", "two words", code=2)
    host.run(code=2)
    assert "STATECORE_WITNESSES does not name" in host.examine(code=6).err


def test_a_wrong_key_of_the_journal_raises_the_alarm(hosts: list[Host]) -> None:
    other = str(proofs.get_key()).replace("statecore/", "other/")
    assert "key" in hosts[0].run("--key", other, code=2).err


def test_a_witness_needs_no_django(tmp_path: Path) -> None:
    program = "import sys; sys.modules['django'] = None; from statecore_client.cli.main import main; sys.exit(main())"
    words = ["witness", "--folder", str(tmp_path / "w"), "--new-key", "witness.example/w"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
