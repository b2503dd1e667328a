"""Who may open a socket or a stream, and that the streams say what the sockets say."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from api.live.asgi import refuse
from statecore import board
from statecore.journal import Event
from statecore.records import token as tokens
from statecore.records.position import head
from tests.api.callers import member
from tests.api.test_rights import plain_user, useless
from tests.live.viewer import Viewer
from tests.support import world
from tests.support.waiting import until
from tests.support.web import Web, bearer, running

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("/ws/events/", "/ws/board/")


def session_cookie() -> dict[str, str]:
    client = Client()
    client.force_login(member("browser"), "django.contrib.auth.backends.ModelBackend")
    return {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}


def opened(web: Web, path: str, headers: dict[str, str] | None = None, **details: Any) -> int | str:
    """The status it was turned away with, or the type of the first message."""
    try:
        with connect(f"{web.ws}{path}", additional_headers=headers or {}, proxy=None, **details) as socket:
            return str(json.loads(socket.recv(10))["type"])
    except InvalidStatus as refused:
        return int(json.loads(refused.response.body or b"{}")["status"])


def test_who_gets_in(web: Web) -> None:
    good = bearer()
    text = good["Authorization"].split()[1]
    cookie = session_cookie()
    no_group = User.objects.create_superuser("nobody")
    sees_nothing = {"Authorization": f"Bearer {tokens.make('blind', no_group, 'read')[1]}"}
    User.objects.filter(pk=no_group.pk).update(is_superuser=False)
    here, elsewhere = {"Origin": web.url}, {"Origin": "http://elsewhere.example"}
    for path, first in zip(PATHS, ("hello", "snapshot"), strict=True):
        assert opened(web, path, sees_nothing) == 403
        assert opened(web, f"{path}?token={text}") == 401
        assert opened(web, path, good) == first
        assert opened(web, path, {**good, **here}) == first
        assert opened(web, path, {**good, **elsewhere}) == 403
        assert opened(web, path, {**good, "Origin": "http://["}) == 403
        assert opened(web, path, subprotocols=["bearer", text]) == first
        assert opened(web, path, {**cookie, **here}) == first
        assert opened(web, path, {**cookie, **elsewhere}) == 403
        assert opened(web, path, cookie) == 401
    assert opened(web, "/ws/nowhere/", good) == 404
    assert opened(web, "/ws/events/?after=soon", good) == 400
    assert opened(web, "/ws/events/?entity_type=cat", good) == 400
    assert opened(web, "/ws/events/?entity_typ=task", good) == 400
    assert opened(web, "/ws/board/?run=r1", good) == 400
    assert opened(web, "/ws/events/?actor=one,two&actor=three", good) == "hello"

    streams = f"{web.url}/api/v1/events/"
    asks = {"Accept": "text/event-stream"}
    assert httpx.get(streams, headers={**asks, **sees_nothing}).status_code == 403
    for wrong in ("after=soon", "after=", "since=2026-01-01T00:00:00Z", f"actor={'x' * 201}", "page_size=3"):
        assert httpx.get(f"{streams}?{wrong}", headers={**asks, **good}).status_code == 400
    assert httpx.get(streams, headers={**asks, **good, "Host": "elsewhere.example"}).status_code == 400
    for way_in in (good, cookie):
        with httpx.stream("GET", streams, headers={**asks, **way_in}) as stream:
            assert stream.status_code == 200
    # The same address without the wish for a stream is a page, which costs a request and nothing else.
    assert httpx.get(streams, headers=good, timeout=30).json()["results"] == []
    assert web.process.poll() is None


def test_who_does_not_get_in(web: Web) -> None:
    for who, text in useless().items():
        shown = {"Authorization": f"Bearer {text}"} if text else {}
        assert [opened(web, path, shown) for path in PATHS] == [401, 401], who
        stream = httpx.get(f"{web.url}/api/v1/events/", headers={"Accept": "text/event-stream", **shown})
        assert (stream.status_code, stream.json()["code"]) == (401, "not_authenticated"), who


def test_the_journal_takes_the_same_right_as_a_page_and_as_a_stream(web: Web) -> None:
    headers = {"Authorization": f"Bearer {tokens.make('one', plain_user('ada', 'view_task'), 'read')[1]}"}
    for asks in ({}, {"Accept": "text/event-stream"}):
        told = httpx.get(f"{web.url}/api/v1/events/", headers={**headers, **asks}, timeout=30)
        assert (told.status_code, told.json()["required"]) == (403, "statecore.view_event")
    assert [opened(web, path, headers) for path in PATHS] == [403, "snapshot"]


def test_opening_a_socket_or_a_stream_is_a_call_like_any_other(home: Path, redis_server: str) -> None:
    good = bearer()

    def asked_for_a_stream() -> int:
        asks = {"Accept": "text/event-stream", **good}
        with httpx.stream("GET", f"{web.url}/api/v1/events/", headers=asks, timeout=20) as stream:
            return stream.status_code

    with running(home, REDIS_URL=redis_server, STATECORE_CALLS_PER_MINUTE="1") as web:
        # Again and again, for a new minute may begin in between.
        for path in PATHS:
            until(lambda path=path: opened(web, path, good) == 429)
        until(lambda: asked_for_a_stream() == 429)


def test_turning_somebody_away_is_no_error_of_the_server(web: Web) -> None:
    assert [opened(web, path) for path in (*PATHS, "/ws/nowhere/")] == [401, 401, 404]
    web.end()
    assert "handshake" not in web.log


def test_a_database_that_is_away_is_told_as_such() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(refuse(OperationalError("the connection is closed"), send))
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (503, "unavailable")


def events_of(stream: Any, count: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Id, name and data of the first so many."""
    found, lines = [], {}
    for line in stream.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            lines[name] = value
        elif "data" in lines:
            found.append((lines["id"], lines.get("event", ""), json.loads(lines["data"])))
            lines = {}
        else:
            lines = {}
        if len(found) == count:
            return found
    return found


def test_streams_and_the_board_to_the_end_of_the_server(web: Web) -> None:
    headers = {**bearer(), "Accept": "text/event-stream"}
    the_board_and_its_changes_add_up(web, headers)
    a_stream_goes_on_where_it_was_left(web, headers)
    the_server_ends_at_once_with_streams_open(web, headers)


def a_stream_goes_on_where_it_was_left(web: Web, headers: dict[str, str]) -> None:
    start = head()
    phase = world.phase()
    for _ in range(3):
        world.run(phase=phase)
    until(lambda: head() == start + 3)
    address = f"{web.url}/api/v1/events/"
    with httpx.stream("GET", f"{address}?after={start}", headers=headers, timeout=20) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        hello, *told = events_of(stream, 4)
    assert hello == (str(start), "hello", {"type": "hello", "position": start})
    assert [(int(each[0]), each[2]["position"]) for each in told] == [(start + n, start + n) for n in (1, 2, 3)]

    world.run(phase=phase)
    until(lambda: head() == start + 4)
    # What the browser remembers counts, not what its address said at first.
    again = {**headers, "Last-Event-ID": str(start + 2)}
    with httpx.stream("GET", f"{address}?after=0", headers=again, timeout=20) as stream:
        assert [int(each[0]) - start for each in events_of(stream, 3)] == [2, 3, 4]
    with httpx.stream("GET", f"{address}?after=7777", headers=headers, timeout=20) as stream:
        assert events_of(stream, 1)[0][1] == "resnapshot"


def the_server_ends_at_once_with_streams_open(web: Web, headers: dict[str, str]) -> None:
    with (
        httpx.stream("GET", f"{web.url}/api/v1/events/", headers=headers) as stream,
        connect(f"{web.ws}/ws/events/", additional_headers=headers, proxy=None) as socket,
    ):
        lines = stream.iter_lines()
        until(lambda: next(lines).startswith("data"))
        socket.recv(10)
        web.process.terminate()
        assert [line for line in lines if line.startswith("data")] == []
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        web.process.wait(4)
    assert "timeout graceful shutdown exceeded" not in web.log


def the_board_and_its_changes_add_up(web: Web, headers: dict[str, str]) -> None:
    with Viewer(web.ws, headers, "/ws/board/") as viewer:
        until(lambda: viewer.of_type("snapshot"))
        for _ in range(3):
            world.queued_task()
        world.forced(world.idle_worker(), "shutdown")

        def shown() -> dict[str, Any]:
            made = dict(viewer.of_type("snapshot")[0])
            for delta in viewer.of_type("delta"):
                made = board.patched(made, delta)
            return made

        def same() -> bool:
            fresh, seen = board.stats(), shown()
            return all(fresh[name] == seen[name] for name in fresh)

        until(lambda: head() == Event.objects.count())
        until(lambda: shown()["counts"]["task"]["queued"] == 3 and same())
        assert len(viewer.of_type("snapshot")) == 1
    moments = viewer.times
    assert all(later - sooner > 0.4 for sooner, later in pairwise(moments))
