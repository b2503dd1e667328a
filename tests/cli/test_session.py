"""Logging in, and usage errors: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import Statecore
from tests.support import site as sites
from tests.support.site import Site

LOGGED_OUT = {"STATECORE_URL": "", "STATECORE_TOKEN": ""}


def account_file(folder: Path) -> Path:
    return folder / "config" / "statecore" / "account.json"


def test_login_stores_the_token_readable_only_by_its_owner(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    text = sites.token("read")

    statecore("login", site.url, stdin=f"{text}\n", **LOGGED_OUT)

    assert account_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert json.loads(account_file(tmp_path).read_text()) == {"url": site.url, "token": text}
    statecore("get", "tasks", **LOGGED_OUT)
    statecore("logout", **LOGGED_OUT)
    assert "no server is known" in statecore("get", "tasks", code=4, **LOGGED_OUT).err


def test_a_wrong_token_is_not_stored(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    assert "not_authenticated" in statecore("login", site.url, stdin="stc_wrong\n", code=4, **LOGGED_OUT).err
    assert not account_file(tmp_path).exists()


def test_a_stored_token_is_not_sent_to_another_server(statecore: Statecore, site: Site) -> None:
    statecore("login", site.url, stdin=f"{sites.token('read')}\n", **LOGGED_OUT)

    error = statecore("get", "tasks", code=4, STATECORE_URL="http://127.0.0.1:9", STATECORE_TOKEN="").err

    assert "no token is known for http://127.0.0.1:9" in error


def test_an_account_file_readable_by_others_is_refused(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    statecore("login", site.url, stdin=f"{sites.token('read')}\n", **LOGGED_OUT)
    account_file(tmp_path).chmod(0o644)

    assert "chmod 600" in statecore("get", "tasks", code=4, **LOGGED_OUT).err


@pytest.mark.parametrize("words", [("get", "tasks", "--url"), ("--url",)], ids=["after", "before"])
def test_the_server_may_be_named_before_and_after_the_command(
    statecore: Statecore, site: Site, words: tuple[str, ...]
) -> None:
    command = () if words[0] == "get" else ("get", "tasks")

    statecore(*words, site.url, *command, STATECORE_URL="http://127.0.0.1:9")

    refused = statecore(*words, "http://127.0.0.1:9", *command, "--patience", "0.3", code=7).err
    assert "http://127.0.0.1:9: tried" in refused


def test_login_accepts_the_server_as_an_option(statecore: Statecore, site: Site, tmp_path: Path) -> None:
    statecore("login", "--url", site.url, stdin=f"{sites.token('read')}\n", **LOGGED_OUT)

    assert json.loads(account_file(tmp_path).read_text())["url"] == site.url
    assert "no server is given" in statecore("login", code=2, stdin="stc_token\n", **LOGGED_OUT).err


def test_a_stored_token_is_not_sent_to_the_server_of_an_option(statecore: Statecore, site: Site) -> None:
    statecore("login", site.url, stdin=f"{sites.token('read')}\n", **LOGGED_OUT)

    refused = statecore("get", "tasks", "--url", "http://127.0.0.1:9", code=4, **LOGGED_OUT).err

    assert "no token is known for http://127.0.0.1:9" in refused


@pytest.mark.parametrize("damage", [b"[", b"\xff", b"[" * 100_000], ids=["half", "no text", "deep"])
def test_a_damaged_account_file_is_reported(damage: bytes, statecore: Statecore, tmp_path: Path) -> None:
    account_file(tmp_path).parent.mkdir(parents=True)
    account_file(tmp_path).write_bytes(damage)
    account_file(tmp_path).chmod(0o600)

    assert "is damaged" in statecore("get", "tasks", code=4, **LOGGED_OUT).err


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
def test_an_error_is_one_sentence_and_an_exit_code(statecore: Statecore, words: list[str], code: int) -> None:
    result = statecore(*words, code=code, stdin="{}" if words[:1] == ["submit"] else "stc_token\n")

    assert result.out == ""
    assert result.err.startswith("statecore")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://no-such-host.invalid"])
def test_an_unreachable_server_is_given_up(statecore: Statecore, url: str) -> None:
    assert "tried" in statecore("--patience", "0.3", "get", "tasks", code=7, STATECORE_URL=url).err


def test_a_token_without_the_scope_is_not_allowed(statecore: Statecore) -> None:
    refused = statecore("fire", "tasks", "t1", "user_cancelled", code=4, STATECORE_TOKEN=sites.token("read"))

    assert "permission_denied" in refused.err


def test_a_token_that_cannot_be_sent_is_reported_without_printing_it(statecore: Statecore) -> None:
    error = statecore("get", "tasks", code=6, STATECORE_TOKEN="é-token").err
    assert "cannot be encoded" in error
    assert "-token" not in error
