"""Events over connections that are lost: none missing, none twice."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from typing import Any

import pytest

from api.client import AsyncClient, Client, NotAuthenticated, Patience
from api.client.stream import TooOld
from tests.client.flaky import DROPPED, Flaky, Reply, refused, serving

QUICK = Patience(first=0.001, longest=0.01, total=5)


def event(position: int) -> dict[str, Any]:
    told = {
        "event_id": f"evt_{position}", "entity_type": "task", "entity_id": "t1", "from_state": None,
        "to_state": "pending", "trigger": "created", "kind": "created", "version": 1,
        "timestamp": "2026-01-01T00:00:00Z", "actor": "ada",
    }  # fmt: skip
    return {"position": position, "event": told}


def streamed(*positions: int, cut: bool = False) -> Reply:
    """Events as a stream tells them; a cut one ends in the middle of an event."""
    text = ": hello\n\nevent: hello\ndata: {}\n\n"
    text += "".join(f"id: {n}\nevent: event\ndata: {json.dumps(event(n))}\n\n" for n in positions)
    half = 'id: 99\ndata: {"position": 99, ' if cut else ""
    return Reply(body=(text + half).encode(), headers={"Content-Type": "text/event-stream"})


def test_it_goes_on_where_it_was_lost() -> None:
    flaky = Flaky(streamed(4, 5, cut=True), DROPPED, streamed(5, 6), streamed(7))
    with serving(flaky) as url, Client(url, "secret", patience=QUICK) as client:
        heard = [each.position for each in islice(client.stream(after=3), 4)]

    assert heard == [4, 5, 6, 7]
    paths = [path for _method, path, _headers, _body in flaky.requests]
    assert paths == [f"/api/v1/events/?after={n}" for n in (3, 5, 5, 6)]


def test_the_asynchronous_one_does_too() -> None:
    async def positions(url: str) -> list[int]:
        async with AsyncClient(url, "secret", patience=QUICK) as client:
            stream = client.stream(after=0, entity_type="task")
            return [(await anext(stream)).position for _ in range(3)]

    flaky = Flaky(streamed(1, 2), streamed(2, 3))
    with serving(flaky) as url:
        assert asyncio.run(positions(url)) == [1, 2, 3]


def test_a_refused_stream_says_so() -> None:
    said_no = Flaky(refused(401, "not_authenticated"))
    with serving(said_no) as url, Client(url, "secret", patience=QUICK) as client, pytest.raises(NotAuthenticated):
        next(client.stream())


def test_a_position_that_is_too_old_is_said_to_be() -> None:
    old = Reply(body=b"event: resnapshot\ndata: {}\n\n", headers={"Content-Type": "text/event-stream"})
    with serving(Flaky(old)) as url, Client(url, "secret", patience=QUICK) as client, pytest.raises(TooOld):
        next(client.stream(after=3))


# Python, unlike the format of the stream, takes each of these for the end of a line; JSON leaves them as they are.
STRANGE = "one\u2028two\u2029three\x85four"


def test_a_text_may_hold_what_others_break_lines_at() -> None:
    told = {**event(4), "event": {**event(4)["event"], "reason": STRANGE}}
    text = f"id: 4\r\ndata: {json.dumps(told, ensure_ascii=False)}\r\n\r\n"
    reply = Reply(body=text.encode(), headers={"Content-Type": "text/event-stream"})

    async def first(url: str) -> str:
        async with AsyncClient(url, "secret", patience=QUICK) as client:
            return str((await anext(client.stream(after=3))).event.reason)

    with serving(Flaky(reply, reply)) as url, Client(url, "secret", patience=QUICK) as client:
        assert next(client.stream(after=3)).event.reason == STRANGE
        assert asyncio.run(first(url)) == STRANGE
