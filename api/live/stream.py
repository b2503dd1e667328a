"""`GET events/` as `text/event-stream`. The id of an event is `EPOCH-POSITION`, from which browsers resume."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson

from statecore.delivery.live import Hub, PositionTooOld, StreamEvent, Subscription, get_hub

from ..access import VIEW_EVENT
from . import stream_params
from .access import Caller, authenticate, check_host
from .asgi import (
    REFUSED,
    Application,
    Receive,
    Scope,
    Send,
    read_header,
    read_query,
    refuse,
)
from .connections import get_connections
from .events_socket import FRAME_SECONDS, IDLE_SECONDS
from .socket import SEND_TIMEOUT
from .stream_params import StreamParams, describe_skip

PATH = re.compile("/api/v1/events/?")
CONTENT_TYPE = "text/event-stream"
HEADERS = [
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


def render_events(events: list[StreamEvent], epoch: int) -> bytes:
    return b"".join([b"id: %d-%d\ndata: %b\n\n" % (epoch, event.position, event.text) for event in events])


def render_notice(name: str, at: Subscription, **more: Any) -> bytes:
    data = orjson.dumps({"type": name, "position": at.position, "epoch": at.epoch, **more})
    return b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (at.epoch, at.position, name.encode(), data)


def requests_stream(scope: Scope) -> bool:
    return scope["method"] == "GET" and CONTENT_TYPE in read_header(scope, b"accept")


class EventStreams:
    """Serves requests for an event stream, and passes all others to `application`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if requests_stream(scope) and PATH.fullmatch(scope["path"]):
            await serve(scope, receive, send, VIEW_EVENT, _open)
        else:
            await self.application(scope, receive, send)


# Returns the parts of a stream, after the parameters were read.
Open = Callable[[Scope, Caller, Hub], Awaitable[AsyncIterator[bytes]]]


async def serve(scope: Scope, receive: Receive, send: Send, permission: str, open_stream: Open) -> None:
    """Send a stream until it ends, the client disconnects, or its access is revoked; or refuse it."""
    try:
        await _stream(scope, receive, send, permission, open_stream)
    except REFUSED as error:
        await refuse(error, send)


async def _stream(scope: Scope, receive: Receive, send: Send, permission: str, open_stream: Open) -> None:
    check_host(scope)
    hub = get_hub()
    connections = get_connections(hub)
    connections.check_capacity()
    async with hub.watch():
        caller = await hub.reader.run(authenticate, scope, permission)
        connections.check_account(caller)
        parts = await open_stream(scope, caller, hub)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        with connections.track(caller) as revoked:
            tasks = [
                asyncio.create_task(_send_parts(parts, send)),
                asyncio.create_task(_wait_for_disconnect(receive)),
                asyncio.create_task(revoked.wait()),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})


async def _send_parts(parts: AsyncIterator[bytes], send: Send) -> None:
    async for part in parts:
        async with asyncio.timeout(SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": part, "more_body": True})


async def _open(scope: Scope, caller: Caller, hub: Hub) -> AsyncIterator[bytes]:
    params = stream_params.read(read_query(scope), caller.visible, read_header(scope, b"last-event-id"))
    await params.check_epoch(hub)
    return _yield_parts(params, hub)


async def _yield_parts(params: StreamParams, hub: Hub) -> AsyncIterator[bytes]:
    subscription, skipped = await params.subscribe(hub)
    first = render_notice("resnapshot", subscription, **describe_skip(skipped)) if skipped else None
    yield b"retry: 1000\n\n" + (first or render_notice("hello", subscription))
    sent_at = time.monotonic()
    while not hub.closing.is_set():
        await subscription.wait(IDLE_SECONDS)
        try:
            part = await subscription.take(render_events)
        except PositionTooOld as reason:
            subscription.skip_to_end()
            part = render_notice("resnapshot", subscription, **describe_skip(reason))
        if part is not None:
            yield part
            await asyncio.sleep(FRAME_SECONDS)
        elif time.monotonic() >= sent_at + IDLE_SECONDS:
            yield b": still here\nid: %d-%d\n\n" % (subscription.epoch, subscription.position)
        else:
            continue
        sent_at = time.monotonic()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
