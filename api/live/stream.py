"""`GET events/` as `text/event-stream`: the id of each event is its position, so a browser goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson

from statecore.live import Hub, Told, TooOld, hub

from ..permissions import VIEW_EVENT
from . import wishes
from .asgi import REFUSED, Application, Receive, Scope, Send, header, query, refuse
from .events_socket import PACE, QUIET
from .origin import check_host
from .presence import presence
from .socket import PATIENCE
from .visitor import admit
from .wishes import Wishes

PATH = "/api/v1/events/"
TYPE = "text/event-stream"
HEADERS = [
    (b"content-type", TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


def frame(events: list[Told]) -> bytes:
    return b"".join([b"id: %d\ndata: %b\n\n" % (event.position, event.text) for event in events])


def named(name: str, position: int) -> bytes:
    data = orjson.dumps({"type": name, "position": position})
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (position, name.encode(), data)


class Streams:
    """Takes what asks for a stream, and leaves everything else to the application behind it."""

    def __init__(self, others: Application) -> None:
        self.others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != PATH or scope["method"] != "GET" or TYPE not in header(scope, b"accept"):
            await self.others(scope, receive, send)
            return
        try:
            await _stream(scope, receive, send)
        except REFUSED as error:
            await refuse(error, send)


async def _stream(scope: Scope, receive: Receive, send: Send) -> None:
    check_host(scope)
    here = hub()
    if full := presence(here).check_room():
        raise full
    async with here.watching():
        visitor = await here.reader.ask(admit, scope, VIEW_EVENT)
        wished = wishes.read(query(scope), visitor.seen, header(scope, b"last-event-id"))
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        with presence(here).of(visitor) as leaving:
            tasks = [
                asyncio.create_task(_tell(wished, here, send)),
                asyncio.create_task(_until_it_leaves(receive)),
                asyncio.create_task(leaving.wait()),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})


async def _tell(wished: Wishes, here: Hub, send: Send) -> None:
    async for part in _parts(wished, here):
        async with asyncio.timeout(PATIENCE):
            await send({"type": "http.response.body", "body": part, "more_body": True})


async def _parts(wished: Wishes, here: Hub) -> AsyncIterator[bytes]:
    following, is_too_old = await wished.following(here)
    yield b"retry: 1000\n\n" + named("resnapshot" if is_too_old else "hello", following.position)
    while not here.closing.is_set():
        is_news = await here.beyond(following.position, QUIET)
        try:
            part = following.take(frame)
        except TooOld:
            following.position = here.ring.last
            part = named("resnapshot", following.position)
        if part is not None:
            yield part
            await asyncio.sleep(PACE)
        elif not is_news:
            yield b": still here\nid: %d\n\n" % following.position


async def _until_it_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
