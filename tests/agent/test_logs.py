"""An agent streams the output of its command as the log of the task, and never waits for the server."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statecore.read_models import task_logs
from statecore_client import Client, RetryPolicy
from statecore_client.records import Task as ClaimedTask
from statecore_client.slots import log_sender
from statecore_client.slots.log_sender import LineBuffer, LogSender, make_line
from tests.agent.process import AgentProcess, submit, wait_for_state
from tests.client.flaky import DROPPED, Flaky, Reply, refused, serving
from tests.support.site import Site
from tests.support.waiting import until

Start = Callable[..., AgentProcess]
QUICK = RetryPolicy(first=0.001, longest=0.01, total=0.0)


def read_log() -> list[tuple[str, str]]:
    return [(line.stream, line.text) for line in task_logs.read_after("t1", 0, 10_000)]


def test_the_log_is_written_while_the_command_runs_and_complete_when_it_ends(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    script = f"echo out; echo err >&2; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; printf last"
    agents("--", "/bin/sh", "-c", script)
    until(lambda: len(read_log()) == 2)
    (tmp_path / "go").touch()
    wait_for_state("t1", "completed")
    log = read_log()
    assert sorted(log[:2]) == [("stderr", "err"), ("stdout", "out")]
    assert log[2:] == [("stdout", "last")]


def test_a_chatty_command_loses_no_line(agents: Start) -> None:
    submit({"id": "t1"})
    agents("--", sys.executable, "-c", "for n in range(5000): print('line', n)")
    wait_for_state("t1", "completed")
    assert [text for _stream, text in read_log()] == [f"line {n}" for n in range(5000)]


def test_binary_output_is_stored_as_readable_text(agents: Start) -> None:
    submit({"id": "t1"})
    agents("--", "/bin/sh", "-c", r"printf '\377\376\0 \033[31mred\033[0m\n10%%\r100%%\n'")
    wait_for_state("t1", "completed")
    assert [text for _stream, text in read_log()] == ["\ufffd\ufffd␀ red", "100%"]


def test_lines_written_while_the_server_is_away_follow_when_it_is_back(
    agents: Start, site: Site, tmp_path: Path
) -> None:
    submit({"id": "t1"})
    script = f"echo before; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; echo meanwhile"
    agents("--", "/bin/sh", "-c", script)
    until(lambda: len(read_log()) == 1)
    site.end(signal.SIGKILL)
    (tmp_path / "go").touch()
    site.start()
    wait_for_state("t1", "completed")
    assert [text for _stream, text in read_log()] == ["before", "meanwhile"]


def test_a_full_buffer_drops_the_oldest_lines_and_says_how_many(monkeypatch: Any) -> None:
    monkeypatch.setattr(log_sender, "MAX_CHARACTERS", 1_010)
    buffer = LineBuffer()
    for number in range(25):
        buffer.add(make_line("stdout", str(number)))
    texts = [line["text"] for line in buffer.take()]
    assert texts[0] == f"{25 - len(texts[1:])} lines dropped by the agent: they could not be sent in time"
    assert texts[1:] == [str(number) for number in range(25 - len(texts[1:]), 25)]
    assert (buffer.size, buffer.take()) == (0, [])


def send_through(*replies: Reply) -> list[dict[str, Any]]:
    """Sends two lines to a server with these replies; returns the bodies that it received."""
    flaky = Flaky(*replies)
    with serving(flaky) as url, Client(url, "secret", retry_policy=QUICK) as client:
        sender = LogSender(client, ClaimedTask(id="t1", attempt=3))
        sender.add("stdout", b"a\nb")
        sender.close()
    return [json.loads(body) for _method, _path, _headers, body in flaky.requests]


def test_a_lost_response_is_repeated_with_the_same_offset(monkeypatch: Any) -> None:
    monkeypatch.setattr(log_sender, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(log_sender, "PAUSE_SECONDS", 0.0)
    done = Reply(body=b'{"next": 9}')
    sent = send_through(DROPPED, done, done)
    assert {each["attempt"] for each in sent} == {3}
    assert sent[0] == sent[1]
    lines = {each["offset"] + n: line["text"] for each in sent for n, line in enumerate(each["lines"])}
    assert lines == {0: "a", 1: "b"}


def test_the_sender_gives_up_when_the_lease_is_lost() -> None:
    assert len(send_through(refused(409, "lease_lost"))) == 1


def test_after_a_restore_the_sender_continues_with_what_the_server_has(monkeypatch: Any) -> None:
    monkeypatch.setattr(log_sender, "PAUSE_SECONDS", 0.0)
    done = Reply(body=b'{"next": 9}')
    sent = send_through(refused(409, "log_gap", offset=7), done, done)
    assert [each["offset"] for each in sent][:2] == [0, 7]
