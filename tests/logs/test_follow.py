"""Followers get each line once and in order: over lost wake-ups, reconnections and until the attempt has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from statecore.delivery import log_news
from statecore.delivery.live import log_reader
from statecore.delivery.sinks.live import Live
from tests.api.callers import Caller, expect_ok
from tests.live.in_process import InProcessApp, running_app
from tests.logs.following import Follower
from tests.logs.writing import start_task, write
from tests.support.sequencer import catch_up
from tests.support.waiting import until
from tests.support.web import bearer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app(home: Any, redis_server: str, settings: Any) -> Iterator[InProcessApp]:
    settings.ALLOWED_HOSTS = ["localhost", "testserver"]
    with running_app() as running:
        yield running


@pytest.fixture
def agent() -> Caller:
    caller = Caller(name="agent-1")
    start_task(caller)
    return caller


def complete(agent: Caller) -> None:
    expect_ok(agent.post("tasks/t/transitions/", {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}))
    catch_up(Live())


def numbered(count: int, start: int = 1) -> list[tuple[int, str]]:
    return [(number, f"line {number}") for number in range(start, start + count)]


def write_numbered(agent: Caller, count: int, start: int = 1) -> None:
    expect_ok(write(agent, *(f"line {number}" for number in range(start, start + count))))


def test_a_follower_gets_what_was_written_and_what_is_written_until_the_end(app: InProcessApp, agent: Caller) -> None:
    write_numbered(agent, 3)
    follower = Follower(app, bearer())
    until(lambda: len(follower.lines) == 3)
    for start in range(4, 24, 5):
        write_numbered(agent, 5, start)
        until(lambda start=start: len(follower.lines) == start + 4)
    complete(agent)
    until(lambda: follower.has_ended)
    assert follower.lines == numbered(23)
    assert follower.end == {"attempt": 1, "state": "completed"}


def test_a_follower_resumes_after_the_last_line_it_got(app: InProcessApp, agent: Caller) -> None:
    write_numbered(agent, 10)
    headers = bearer()
    first = Follower(app, headers, query="after=3")
    until(lambda: len(first.lines) == 7)
    first.leave()
    until(lambda: first.has_ended)
    write_numbered(agent, 10, 11)
    complete(agent)
    again = Follower(app, headers, **{"Last-Event-ID": "10"})
    until(lambda: again.has_ended)
    assert first.lines + again.lines == numbered(17, 4)
    late = Follower(app, headers, query="after=20")
    until(lambda: late.has_ended)
    assert (late.lines, late.end) == ([], {"attempt": 1, "state": "completed"})


def test_a_lost_wake_up_is_caught_by_the_poll(
    app: InProcessApp, agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(app, bearer())
    until(lambda: follower.status == 200)
    monkeypatch.setattr(log_news, "announce", lambda *_tasks: None)
    write_numbered(agent, 2)
    until(lambda: follower.lines == numbered(2))


def test_many_followers_of_a_log_cost_the_database_as_much_as_one(app: InProcessApp, agent: Caller) -> None:
    headers = bearer()
    followers = [Follower(app, headers) for _ in range(50)]
    until(lambda: all(follower.status == 200 for follower in followers))
    executed: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        executed.append(sql)
        return execute(sql, *rest)

    app.run(app.hub.reader.run(lambda: connection.execute_wrappers.append(note)))
    for start in range(1, 101, 10):
        write_numbered(agent, 10, start)
    until(lambda: all(follower.lines == numbered(100) for follower in followers))
    reads = [sql for sql in executed if "logchunk" in sql]
    assert 1 <= len(reads) <= 15, Counter(reads)


def test_a_follower_that_is_far_behind_reads_the_rest_from_the_table(
    app: InProcessApp, agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "BYTES_PER_LOG", 2_000)
    headers = bearer()
    keeping = Follower(app, headers)
    until(lambda: keeping.status == 200)
    for start in range(1, 1_001, 100):
        write_numbered(agent, 100, start)
    until(lambda: len(keeping.lines) == 1_000)
    behind = Follower(app, headers, query="after=5")
    until(lambda: len(behind.lines) == 995)
    assert (keeping.lines, behind.lines) == (numbered(1_000), numbered(995, 6))


def test_a_follower_may_wait_for_an_attempt_that_has_not_begun(app: InProcessApp, agent: Caller) -> None:
    follower = Follower(app, bearer(), query="attempt=2")
    write_numbered(agent, 1)
    complete(agent)
    until(lambda: follower.has_ended)
    assert follower.lines == []
    assert follower.end == {"attempt": 2, "state": "completed"}


def test_followers_without_access_or_of_unknown_tasks_are_refused(app: InProcessApp, agent: Caller) -> None:
    headers = bearer()
    refused = [
        (Follower(app, {}), 401),
        (Follower(app, headers, task="missing"), 404),
        (Follower(app, headers, query="after=x"), 400),
        (Follower(app, headers, query=f"attempt={2**40}"), 400),
    ]
    until(lambda: all(follower.has_ended for follower, _status in refused))
    assert [follower.status for follower, _status in refused] == [status for _follower, status in refused]
