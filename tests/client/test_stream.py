"""The event stream over lost connections: no event is missing or repeated."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import islice
from typing import Any

import pytest

from statecore_client import AsyncClient, Client, NotAuthenticated, Outage, PositionTooOld, RetryPolicy, Unreachable
from tests.client.flaky import BROKEN, DROPPED, UNAVAILABLE, Flaky, Reply, refused, serving

QUICK = RetryPolicy(first=0.001, longest=0.01, total=5)


def event(position: int) -> dict[str, Any]:
    told = {
        "event_id": f"evt_{position}", "entity_type": "task", "entity_id": "t1", "from_state": None,
        "to_state": "pending", "trigger": "created", "kind": "created", "version": 1,
        "timestamp": "2026-01-01T00:00:00Z", "actor": "ada",
    }  # fmt: skip
    return {"position": position, "event": told}


def streamed(*positions: int, cut: bool = False) -> Reply:
    """Return a stream response with these events; with `cut` it ends in the middle of an event."""
    text = ": hello\n\nevent: hello\ndata: {}\n\n"
    text += "".join(f"id: {n}\nevent: event\ndata: {json.dumps(event(n))}\n\n" for n in positions)
    half = 'id: 99\ndata: {"position": 99, ' if cut else ""
    return Reply(body=(text + half).encode(), headers={"Content-Type": "text/event-stream"})


def test_the_stream_resumes_after_the_last_event() -> None:
    flaky = Flaky(streamed(4, 5, cut=True), DROPPED, streamed(5, 6), streamed(7))
    with serving(flaky) as url, Client(url, "secret", retry_policy=QUICK) as client:
        positions = [each.position for each in islice(client.stream_events(after=3), 4)]

    assert positions == [4, 5, 6, 7]
    paths = [path for _method, path, _headers, _body in flaky.requests]
    assert paths == [f"/api/v1/events/?after={n}" for n in (3, 5, 5, 6)]


def test_the_asynchronous_stream_resumes_after_the_last_event() -> None:
    async def positions(url: str) -> list[int]:
        async with AsyncClient(url, "secret", retry_policy=QUICK) as client:
            stream = client.stream_events(after=0, entity_type="task")
            return [(await anext(stream)).position for _ in range(3)]

    flaky = Flaky(streamed(1, 2), streamed(2, 3))
    with serving(flaky) as url:
        assert asyncio.run(positions(url)) == [1, 2, 3]


def test_a_refused_stream_raises_the_refusal() -> None:
    refusing = Flaky(refused(401, "not_authenticated"))
    with serving(refusing) as url, Client(url, "secret", retry_policy=QUICK) as client, pytest.raises(NotAuthenticated):
        next(client.stream_events())


def test_a_position_that_is_too_old_is_refused() -> None:
    old = Reply(body=b"event: resnapshot\ndata: {}\n\n", headers={"Content-Type": "text/event-stream"})
    with serving(Flaky(old)) as url, Client(url, "secret", retry_policy=QUICK) as client, pytest.raises(PositionTooOld):
        next(client.stream_events(after=3))


# The pauses of a stream add up to more than `total` long before the outages below end.
SHORT = RetryPolicy(first=0.01, longest=0.02, total=0.05)


def test_a_stream_outlives_an_outage_of_any_length() -> None:
    async def first(url: str) -> int:
        async with AsyncClient(url, "secret", retry_policy=SHORT) as client:
            return (await anext(client.stream_events(after=3))).position

    outage = (*[DROPPED] * 15, UNAVAILABLE, BROKEN, streamed(4))
    flaky = Flaky(*outage, *outage)
    with serving(flaky) as url, Client(url, "secret", retry_policy=SHORT) as client:
        assert next(client.stream_events(after=3)).position == 4
        assert asyncio.run(first(url)) == 4
    assert len(flaky.requests) == 2 * len(outage)


def test_an_outage_is_reported_until_it_ends() -> None:
    reports: list[Outage] = []
    flaky = Flaky(streamed(4), DROPPED, UNAVAILABLE, streamed(5), DROPPED, streamed(6))
    with serving(flaky) as url, Client(url, "secret", retry_policy=SHORT) as client:
        stream = client.stream_events(after=3, on_outage=reports.append)
        assert [next(stream).position for _ in range(3)] == [4, 5, 6]

    # The end of each reply is a lost connection that the next attempt may repair: the attempts that fail are reported.
    assert [outage.attempt for outage in reports] == [1, 2, 1]
    assert "503" in reports[1].error
    assert reports[1].seconds >= reports[0].seconds


def test_an_outage_is_logged_once_when_nothing_else_reports_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="statecore.client")
    with serving(Flaky(DROPPED, DROPPED, DROPPED, streamed(4))) as url, Client(url, "s", retry_policy=SHORT) as client:
        next(client.stream_events(after=3))

    lost, resumed = [record.getMessage() for record in caplog.records if record.name == "statecore.client"]
    assert lost.startswith("event stream lost, reconnecting: ")
    assert resumed.startswith("event stream resumed after ")


def test_a_stream_gives_up_after_the_time_it_is_given() -> None:
    began = time.monotonic()
    flaky = Flaky(*[DROPPED] * 1000)
    with serving(flaky) as url, Client(url, "secret", retry_policy=SHORT) as client, pytest.raises(Unreachable) as end:
        next(client.stream_events(after=3, give_up_after=0.5))

    # Elapsed time counts, not the number of attempts.
    assert 0.4 < time.monotonic() - began < 5
    assert len(flaky.requests) > 5
    assert "the event stream was down for 0" in str(end.value)


# Python, unlike the event stream format, treats each of these as a line break; JSON does not escape them.
STRANGE = "one\u2028two\u2029three\x85four"


def test_event_texts_may_contain_unicode_line_separators() -> None:
    told = {**event(4), "event": {**event(4)["event"], "reason": STRANGE}}
    text = f"id: 4\r\ndata: {json.dumps(told, ensure_ascii=False)}\r\n\r\n"
    reply = Reply(body=text.encode(), headers={"Content-Type": "text/event-stream"})

    async def first(url: str) -> str:
        async with AsyncClient(url, "secret", retry_policy=QUICK) as client:
            return str((await anext(client.stream_events(after=3))).event.reason)

    with serving(Flaky(reply, reply)) as url, Client(url, "secret", retry_policy=QUICK) as client:
        assert next(client.stream_events(after=3)).event.reason == STRANGE
        assert asyncio.run(first(url)) == STRANGE
