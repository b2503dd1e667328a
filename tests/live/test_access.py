"""Access to sockets and streams; streams carry the same events as sockets."""

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

from statecore.api.live.asgi import refuse
from statecore.journal import Event
from statecore.journal.position import head
from statecore.read_models import board
from statecore.records import token as tokens
from tests.api.callers import member
from tests.api.test_rights import invalid_tokens, plain_user
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


def open_socket(web: Web, path: str, headers: dict[str, str] | None = None, **details: Any) -> int | str:
    """Return the status of the refusal, or the type of the first message."""
    try:
        with connect(f"{web.ws}{path}", additional_headers=headers or {}, proxy=None, **details) as socket:
            return str(json.loads(socket.recv(10))["type"])
    except InvalidStatus as refused:
        return int(json.loads(refused.response.body or b"{}")["status"])


def test_authorized_clients_can_open_sockets_and_streams(web: Web) -> None:
    good = bearer()
    text = good["Authorization"].split()[1]
    cookie = session_cookie()
    no_group = User.objects.create_superuser("nobody")
    sees_nothing = {"Authorization": f"Bearer {tokens.make('blind', no_group, 'read')[1]}"}
    User.objects.filter(pk=no_group.pk).update(is_superuser=False)
    here, elsewhere = {"Origin": web.url}, {"Origin": "http://elsewhere.example"}
    for path, first in zip(PATHS, ("hello", "snapshot"), strict=True):
        assert open_socket(web, path, sees_nothing) == 403
        assert open_socket(web, f"{path}?token={text}") == 401
        assert open_socket(web, path, good) == first
        assert open_socket(web, path, {**good, **here}) == first
        assert open_socket(web, path, {**good, **elsewhere}) == 403
        assert open_socket(web, path, {**good, "Origin": "http://["}) == 403
        assert open_socket(web, path, subprotocols=["bearer", text]) == first
        assert open_socket(web, path, {**cookie, **here}) == first
        assert open_socket(web, path, {**cookie, **elsewhere}) == 403
        assert open_socket(web, path, cookie) == 401
    assert open_socket(web, "/ws/nowhere/", good) == 404
    assert open_socket(web, "/ws/events/?after=soon", good) == 400
    assert open_socket(web, "/ws/events/?entity_type=cat", good) == 400
    assert open_socket(web, "/ws/events/?entity_typ=task", good) == 400
    assert open_socket(web, "/ws/board/?run=r1", good) == 400
    assert open_socket(web, "/ws/events/?actor=one,two&actor=three", good) == "hello"

    streams = f"{web.url}/api/v1/events/"
    accept = {"Accept": "text/event-stream"}
    assert httpx.get(streams, headers={**accept, **sees_nothing}).status_code == 403
    for wrong in ("after=soon", "after=", "since=2026-01-01T00:00:00Z", f"actor={'x' * 201}", "page_size=3"):
        assert httpx.get(f"{streams}?{wrong}", headers={**accept, **good}).status_code == 400
    assert httpx.get(streams, headers={**accept, **good, "Host": "elsewhere.example"}).status_code == 400
    for credentials in (good, cookie):
        with httpx.stream("GET", streams, headers={**accept, **credentials}) as stream:
            assert stream.status_code == 200
    # Without `Accept: text/event-stream` the same URL returns a page.
    assert httpx.get(streams, headers=good, timeout=30).json()["results"] == []
    assert web.process.poll() is None


def test_unusable_tokens_are_refused(web: Web) -> None:
    for case, text in invalid_tokens().items():
        shown = {"Authorization": f"Bearer {text}"} if text else {}
        assert [open_socket(web, path, shown) for path in PATHS] == [401, 401], case
        stream = httpx.get(f"{web.url}/api/v1/events/", headers={"Accept": "text/event-stream", **shown})
        assert (stream.status_code, stream.json()["code"]) == (401, "not_authenticated"), case


def test_pages_streams_and_sockets_need_the_same_permission(web: Web) -> None:
    headers = {"Authorization": f"Bearer {tokens.make('one', plain_user('ada', 'view_task'), 'read')[1]}"}
    for accept in ({}, {"Accept": "text/event-stream"}):
        answer = httpx.get(f"{web.url}/api/v1/events/", headers={**headers, **accept}, timeout=30)
        assert (answer.status_code, answer.json()["required"]) == (403, "statecore.view_event")
    assert [open_socket(web, path, headers) for path in PATHS] == [403, "snapshot"]


def test_opening_a_socket_or_a_stream_is_rate_limited(home: Path, redis_server: str) -> None:
    good = bearer()

    def open_stream() -> int:
        accept = {"Accept": "text/event-stream", **good}
        with httpx.stream("GET", f"{web.url}/api/v1/events/", headers=accept, timeout=20) as stream:
            return stream.status_code

    with running(home, REDIS_URL=redis_server, STATECORE_CALLS_PER_MINUTE="1") as web:
        # Repeated, because a new minute may begin in between.
        for path in PATHS:
            until(lambda path=path: open_socket(web, path, good) == 429)
        until(lambda: open_stream() == 429)


def test_a_refused_socket_logs_no_server_error(web: Web) -> None:
    assert [open_socket(web, path) for path in (*PATHS, "/ws/nowhere/")] == [401, 401, 404]
    web.end()
    assert "handshake" not in web.log


def test_an_unavailable_database_is_reported_as_503() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(refuse(OperationalError("the connection is closed"), send))
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (503, "unavailable")


def events_of(stream: Any, count: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Return id, name and data of the first `count` events."""
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


def test_streams_and_the_board_until_the_server_stops(web: Web) -> None:
    headers = {**bearer(), "Accept": "text/event-stream"}
    check_board_deltas_add_up(web, headers)
    check_stream_resumes(web, headers)
    check_server_stops_with_open_streams(web, headers)


def check_stream_resumes(web: Web, headers: dict[str, str]) -> None:
    start = head()
    phase = world.phase()
    for _ in range(3):
        world.run(phase=phase)
    until(lambda: head() == start + 3)
    address = f"{web.url}/api/v1/events/"
    with httpx.stream("GET", f"{address}?after={start}", headers=headers, timeout=20) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        hello, *events = events_of(stream, 4)
    assert hello == (f"1-{start}", "hello", {"type": "hello", "position": start, "epoch": 1})
    assert [(each[0], each[2]["position"]) for each in events] == [(f"1-{start + n}", start + n) for n in (1, 2, 3)]

    world.run(phase=phase)
    until(lambda: head() == start + 4)
    # `Last-Event-ID` takes precedence over the `after` of the URL.
    again = {**headers, "Last-Event-ID": f"1-{start + 2}"}
    with httpx.stream("GET", f"{address}?after=0", headers=again, timeout=20) as stream:
        assert [each[0] for each in events_of(stream, 3)] == [f"1-{start + n}" for n in (2, 3, 4)]
    with httpx.stream("GET", f"{address}?after=7777", headers=headers, timeout=20) as stream:
        assert events_of(stream, 1)[0][1] == "resnapshot"


def check_server_stops_with_open_streams(web: Web, headers: dict[str, str]) -> None:
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


def check_board_deltas_add_up(web: Web, headers: dict[str, str]) -> None:
    with Viewer(web.ws, headers, "/ws/board/") as viewer:
        until(lambda: viewer.of_type("snapshot"))
        for _ in range(3):
            world.queued_task()
        world.forced(world.idle_worker(), "shutdown")

        def shown() -> dict[str, Any]:
            state = dict(viewer.of_type("snapshot")[0])
            for delta in viewer.of_type("delta"):
                state = board.apply_merge_patch(state, delta)
            return state

        def is_current() -> bool:
            fresh, seen = board.get_stats(), shown()
            return all(fresh[name] == seen[name] for name in fresh)

        until(lambda: head() == Event.objects.count())
        until(lambda: shown()["counts"]["task"]["queued"] == 3 and is_current())
        assert len(viewer.of_type("snapshot")) == 1
    moments = viewer.times
    assert all(later - sooner > 0.4 for sooner, later in pairwise(moments))
