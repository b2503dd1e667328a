"""Logging in, and what goes wrong before anything is done: one sentence, the right code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import Statecore
from tests.support import site as sites
from tests.support.site import Site

NOBODY = {"STATECORE_URL": "", "STATECORE_TOKEN": ""}


def kept(folder: Path) -> Path:
    return folder / "config" / "statecore" / "account.json"


def test_a_token_is_kept_for_its_owner_alone(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    text = sites.token("read")

    statecore("login", site.url, stdin=f"{text}\n", **NOBODY)

    assert kept(tmp_path).stat().st_mode & 0o777 == 0o600
    assert json.loads(kept(tmp_path).read_text()) == {"url": site.url, "token": text}
    statecore("get", "tasks", **NOBODY)
    statecore("logout", **NOBODY)
    assert "no server is known" in statecore("get", "tasks", code=4, **NOBODY).err


def test_a_wrong_token_is_not_kept(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    assert "not_authenticated" in statecore("login", site.url, stdin="stc_wrong\n", code=4, **NOBODY).err
    assert not kept(tmp_path).exists()


def test_a_kept_token_is_not_sent_to_another_server(statecore: Statecore, site: Site) -> None:
    statecore("login", site.url, stdin=f"{sites.token('read')}\n", **NOBODY)

    said = statecore("get", "tasks", code=4, STATECORE_URL="http://127.0.0.1:9", STATECORE_TOKEN="").err

    assert "no token is known for http://127.0.0.1:9" in said


def test_an_account_that_others_can_read_is_refused(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    statecore("login", site.url, stdin=f"{sites.token('read')}\n", **NOBODY)
    kept(tmp_path).chmod(0o644)

    assert "chmod 600" in statecore("get", "tasks", code=4, **NOBODY).err


@pytest.mark.parametrize("damage", [b"[", b"\xff", b"[" * 100_000], ids=["half", "no text", "deep"])
def test_a_damaged_account_is_said_to_be(damage: bytes, statecore: Statecore, tmp_path: Path) -> None:
    kept(tmp_path).parent.mkdir(parents=True)
    kept(tmp_path).write_bytes(damage)
    kept(tmp_path).chmod(0o600)

    assert "is damaged" in statecore("get", "tasks", code=4, **NOBODY).err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["no-such-command"], 2),
        (["get"], 2),
        (["get", "tasks", "-f", "nonsense"], 2),
        (["get", "tasks", "-f", "nonsense=1"], 6),
        (["get", "nonsense"], 5),
        (["get", "tasks", "no-such-task"], 5),
        (["get", "tasks", "../../admin"], 5),
        (["get", "tasks", "\x1b[31m\x00"[:5]], 5),
        (["explain", "tasks", "no-such-task"], 5),
        (["fire", "tasks", "no-such-task", "worker_started", "worker=w1"], 5),
        (["fire", "tasks", "t1", "worker_started", "reason=x"], 2),
        (["complete-task", "t1"], 2),
        (["submit", "/no/such/file"], 6),
        (["watch", "--until", "done"], 2),
        (["agent"], 2),
        (["agent", "--concurrency", "0", "--", "true"], 2),
        (["agent", "--heartbeat", "1e9", "--", "true"], 2),
        (["playbook", "recover-workstream", "no-such", "--reason", "it has been stuck"], 5),
        (["login", "not-an-address"], 2),
        (["get", "tasks", "-n", "-1"], 2),
        (["stuck", "-n", "-1"], 2),
        (["get", "tasks", "--patience", "nan"], 2),
        (["get", "tasks", "\udcff"], 6),
        (["get", "tasks", "-f", "run=\udcff"], 6),
        (["fire", "tasks", "t1", "worker_started", "worker=\udcff"], 6),
        (["submit", "-", "--request-id", "é"], 6),
    ],
)
def test_what_is_wrong_is_one_sentence_and_a_code(statecore: Statecore, words: list[str], code: int) -> None:
    said = statecore(*words, code=code, stdin="{}" if words[:1] == ["submit"] else "stc_token\n")

    assert said.out == ""
    assert said.err.startswith("statecore")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://no-such-host.invalid"])
def test_a_server_that_is_not_there_is_given_up(statecore: Statecore, url: str) -> None:
    assert "tried" in statecore("--patience", "0.3", "get", "tasks", code=7, STATECORE_URL=url).err


def test_a_token_without_the_scope_is_not_allowed(statecore: Statecore) -> None:
    said = statecore("fire", "tasks", "t1", "user_cancelled", code=4, STATECORE_TOKEN=sites.token("read")).err

    assert "permission_denied" in said


def test_a_token_that_cannot_be_sent_is_said_to_be(statecore: Statecore) -> None:
    said = statecore("get", "tasks", code=6, STATECORE_TOKEN="é-token").err
    assert "is not text that can be sent" in said
    assert "-token" not in said
