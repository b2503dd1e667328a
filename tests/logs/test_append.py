"""Agents write the log of the attempt that they hold; its lines are numbered per task without gaps or duplicates."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from statecore.journal import Event
from statecore.records import LogChunk, TaskLog, task_log
from statecore.scheduling import timers
from statecore.scheduling.log_text import MAX_CHARACTERS, clean_line
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.logs.writing import lines, read_texts, start_task, write
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock() -> Any:
    with time_machine.travel("2026-01-01T00:00:20Z", tick=False) as moved:
        yield moved


@pytest.fixture
def agent(clock: Any) -> Caller:
    caller = Caller(name="agent-1")
    start_task(caller)
    return caller


def restart_attempt(agent: Caller, clock: Any) -> None:
    """Fails the attempt; the same worker claims the next one."""
    expect_ok(agent.post("tasks/t/transitions/", {"trigger": "execution_failed", "attempt": 1, "error": "no"}))
    clock.shift(60)
    timers.queue_retries()
    expect_ok(agent.post("workers/t-worker/heartbeat/"))
    (task,) = expect_ok(agent.post("workers/t-worker/claim/"))["tasks"]
    assert task["attempt"] == 2


def test_lines_are_numbered_and_read_in_pages(agent: Caller) -> None:
    events = Event.objects.count()
    assert expect_ok(write(agent, "one", "two")) == {"next": 3}
    assert expect_ok(write(agent, "three", "four")) == {"next": 5}
    page = expect_ok(agent.get("tasks/t/logs/?page_size=3"))
    assert [(line["number"], line["text"]) for line in page["results"]] == [(1, "one"), (2, "two"), (3, "three")]
    assert page["results"][0] == {
        "number": 1, "attempt": 1, "stream": "stdout", "text": "one", "at": "2026-01-01T00:00:20.000000Z",
    }  # fmt: skip
    (last,) = agent.client.get(page["next"], headers={"Authorization": f"Bearer {agent.text}"}).json()["results"]
    assert (last["number"], last["text"]) == (4, "four")
    assert (LogChunk.objects.count(), Event.objects.count()) == (2, events)


def test_stderr_and_the_time_at_the_agent_are_kept(agent: Caller) -> None:
    line = {"stream": "stderr", "text": "no such file", "at": "2026-01-01T01:00:00+01:00"}
    expect_ok(agent.post("tasks/t/logs/", {"attempt": 1, "lines": [line]}))
    (kept,) = expect_ok(agent.get("tasks/t/logs/"))["results"]
    assert (kept["stream"], kept["at"]) == ("stderr", "2026-01-01T00:00:00.000000Z")


def test_a_repeated_call_stores_nothing_twice(agent: Caller) -> None:
    for _repeat in range(2):
        assert expect_ok(write(agent, "a", "b", offset=0)) == {"next": 3}
    assert expect_ok(write(agent, "b", "c", offset=1)) == {"next": 4}
    first = agent.post("tasks/t/logs/", {"attempt": 1, "lines": lines("d")}, **{"Idempotency-Key": "k"})
    again = agent.post("tasks/t/logs/", {"attempt": 1, "lines": lines("d")}, **{"Idempotency-Key": "k"})
    assert first.json() == again.json() == {"next": 5}
    assert again["Idempotent-Replayed"] == "true"
    assert read_texts(agent) == ["a", "b", "c", "d"]


def test_lines_that_are_missing_before_an_offset_are_named(agent: Caller) -> None:
    write(agent, "a")
    assert expect_refusal(write(agent, "c", offset=2), 409, "log_gap")["offset"] == 1


def test_only_the_holder_writes_and_only_while_it_holds_the_attempt(agent: Caller) -> None:
    other = Caller(name="agent-2")
    expect_refusal(write(other, "x"), 403, "not_the_holder")
    expect_refusal(write(agent, "x", attempt=2), 409, "lease_lost")
    expect_refusal(write(agent, "x", task="missing"), 404, "not_found")
    expect_refusal(write(Caller("read"), "x"), 403, "permission_denied")
    expect_ok(agent.post("tasks/t/transitions/", {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}))
    expect_refusal(write(agent, "x"), 409, "lease_lost")
    assert (TaskLog.objects.count(), LogChunk.objects.count()) == (0, 0)


def test_the_next_attempt_continues_the_numbers_and_the_old_one_writes_no_more(agent: Caller, clock: Any) -> None:
    write(agent, "first attempt", offset=0)
    restart_attempt(agent, clock)
    expect_refusal(write(agent, "late"), 409, "lease_lost")
    assert expect_ok(write(agent, "second attempt", attempt=2, offset=0)) == {"next": 3}
    assert read_texts(agent, query="attempt=1") == ["first attempt"]
    assert read_texts(agent, query="attempt=2") == ["second attempt"]
    assert read_texts(agent) == ["first attempt", "second attempt"]


def test_a_heartbeat_carries_lines_and_is_recorded_even_if_they_are_refused(agent: Caller) -> None:
    tasks = [
        {"id": "t", "attempt": 1, "logs": lines("from a heartbeat"), "log_offset": 0},
        {"id": "gone", "attempt": 1, "logs": lines("x")},
    ]
    for _repeat in range(2):
        answer = expect_ok(agent.post("workers/t-worker/heartbeat/", {"tasks": tasks}))
        assert answer["logs"][0] == {"id": "t", "next": 2}
        assert answer["logs"][1]["refusal"]["code"] == "not_found"
        assert answer["commands"] == [{"cancel": "gone", "attempt": 1}]
    assert read_texts(agent) == ["from a heartbeat"]


def test_a_task_that_writes_too_fast_is_slowed_down(agent: Caller, clock: Any, settings: Any) -> None:
    settings.STATECORE_TASK_LOG_BYTES_PER_SECOND = 100
    while (answer := write(agent, "x" * 200)).status_code == 200:
        pass
    expect_refusal(answer, 429, "log_too_fast")
    seconds = int(answer["Retry-After"])
    assert 1 <= seconds < 16
    stored = len(read_texts(agent))
    clock.shift(seconds)
    expect_ok(write(agent, "x" * 200))
    assert len(read_texts(agent)) == stored + 1


def test_of_a_long_log_the_newest_lines_are_kept_and_the_others_are_counted(agent: Caller, settings: Any) -> None:
    settings.STATECORE_TASK_LOG_BYTES = 2_000
    for number in range(40):
        expect_ok(write(agent, f"line {number}", "x" * 50))
    results = expect_ok(agent.get("tasks/t/logs/"))["results"]
    dropped, *kept = results
    assert dropped["stream"] == "system"
    assert dropped["text"] == f"{dropped['number']} lines dropped: the log of attempt 1 was too long"
    assert [line["number"] for line in kept] == list(range(dropped["number"] + 1, 81))
    assert kept[-2]["text"] == "line 39"
    size = sum(LogChunk.objects.values_list("size", flat=True))
    assert size == TaskLog.objects.get().size <= 2_000


def test_logs_are_deleted_after_some_days(agent: Caller, clock: Any, settings: Any) -> None:
    write(agent, "old")
    clock.shift(timedelta(days=10))
    world.fire(
        world.model("task").objects.get(), "execution_completed", actor=agent.token.as_agent(), attempt=1, exit_code=0
    )
    assert (task_log.forget(), LogChunk.objects.count()) == (0, 1)
    clock.shift(timedelta(days=5))
    settings.STATECORE_TASK_LOG_DAYS = 0
    assert task_log.forget() == 0
    settings.STATECORE_TASK_LOG_DAYS = 14
    assert (task_log.forget(), LogChunk.objects.count(), TaskLog.objects.count()) == (1, 0, 0)


def test_the_numbers_continue_after_the_deletion_while_the_attempt_runs(agent: Caller, clock: Any) -> None:
    write(agent, "old")
    clock.shift(timedelta(days=15))
    assert task_log.forget() == 1
    assert TaskLog.objects.get().next == 2


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain äöü 😀\ttab", "plain äöü 😀\ttab"),
        ("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07text", "red and text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10 %\r50 %\r100 %", "100 %"),
        ("100 %\r", "100 %"),
        ("two\nlines\r\n", "two\nlines\n"),
        ("a\0b\x07c\x7f\x9b", "a␀b␇c␡\ufffd"),
        ("right \u202eto left", "right \ufffdto left"),
        ("half \ud83d of a pair", "half ? of a pair"),
        ("x" * (MAX_CHARACTERS + 5), "x" * MAX_CHARACTERS + " … 5 characters dropped"),
    ],
)
def test_a_line_is_stored_as_plain_text(raw: str, shown: str) -> None:
    assert clean_line(raw) == shown


@pytest.mark.parametrize("start", ["\x9d", "\x1b]", "\x9b", "\x1bP", "\x1b "])
def test_no_line_takes_long_to_clean(start: str) -> None:
    """Sequences that never end; searching from each to the end of the line would take hundreds of milliseconds."""
    line = start * (MAX_CHARACTERS // len(start) - 1) + "\x1bX"
    begun = time.process_time()
    for _line in range(20):
        clean_line(line)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize("text", [b"\xff\xfe broken", b"\\ud83d half", b"nul \\u0000 \\u001b[32mgreen"])
def test_text_that_is_not_valid_unicode_is_stored_and_read(agent: Caller, text: bytes) -> None:
    body = b'{"attempt": 1, "lines": [{"text": "' + text + b'"}]}'
    answer = Client().post(
        "/api/v1/tasks/t/logs/", body, content_type="application/json",
        headers={"Authorization": f"Bearer {agent.text}"},
    )  # fmt: skip
    assert answer.status_code == 200, answer.content
    assert read_texts(agent)[0] in ("\ufffd\ufffd broken", "? half", "nul ␀ green")


@pytest.mark.parametrize(
    "body",
    [
        {"attempt": 1},
        {"attempt": 1, "lines": [{"text": "x", "stream": "other"}]},
        {"attempt": 1, "lines": [{"text": 1}]},
        {"attempt": 1, "lines": [{"text": "x"}] * 1001},
        {"attempt": 1, "lines": [{"text": "x", "at": "yesterday"}]},
        {"attempt": 1, "lines": [{"text": "x", "at": "0001-01-01T00:00:00+14:00"}]},
        {"attempt": 1, "lines": [], "offset": -1},
        {"attempt": 1, "lines": [], "offset": 2**63},
        {"attempt": -1, "lines": []},
    ],
)
def test_other_bodies_are_refused_by_field(agent: Caller, body: dict[str, Any]) -> None:
    assert expect_refusal(agent.post("tasks/t/logs/", body), 400, "invalid")["errors"]
    assert LogChunk.objects.count() == 0
