"""A WebSocket: let in or turned away in HTTP, spoken to until it leaves, is shown out or stops listening."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, ClassVar

import orjson

from statecore.live import Hub, hub

from .asgi import REFUSED, Message, Receive, Scope, Send, rendered
from .origin import check_host, check_origin
from .presence import presence
from .visitor import BEARER, Visitor, admit

PATIENCE = 20.0  # how long one frame may take to leave
POLICY, RESTART, TRY_AGAIN = 1008, 1012, 1013


class Socket:
    """One class for each kind; `speak` runs for each that is open."""

    # Beside the sight of a machine.
    permission: ClassVar[str] = ""

    async def prepare(self, scope: Scope, visitor: Visitor) -> Any:
        """Read the address before anybody is let in; what this returns goes to `speak`."""

    async def speak(self, prepared: Any, here: Hub, send: Frames) -> None:
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        here = hub()
        try:
            check_host(scope)
            check_origin(scope)
            if full := presence(here).check_room():
                raise full
            async with here.watching():
                visitor = await here.reader.ask(admit, scope, self.permission)
                prepared = await self.prepare(scope, visitor)
                await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope)})
                with presence(here).of(visitor) as leaving:
                    await _until_over(self.speak(prepared, here, Frames(send)), receive, send, leaving)
        except REFUSED as error:
            await turn_away(error, scope, send)


class Frames:
    """The way out. A reader that takes nothing for too long is given up: nothing is kept waiting for it."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._send({"type": "websocket.send", "text": text})

    async def tell(self, **message: Any) -> None:
        await self(orjson.dumps(message).decode())


async def _until_over(speaking: Any, receive: Receive, send: Send, leaving: asyncio.Event) -> None:
    speaks = asyncio.create_task(speaking)
    hears, goes = asyncio.create_task(_until_it_leaves(receive)), asyncio.create_task(leaving.wait())
    tasks = (speaks, hears, goes)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not hears.done():
            code = POLICY if goes.done() else RESTART if hub().closing.is_set() else TRY_AGAIN
            with suppress(Exception):  # it may be gone, or not take even this
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "websocket.close", "code": code})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_it_leaves(receive: Receive) -> None:
    """Nothing it says is of interest."""
    message: Message = {"type": ""}
    while message["type"] != "websocket.disconnect":
        message = await receive()


def _subprotocol(scope: Scope) -> str | None:
    named = scope.get("subprotocols") or []
    return BEARER if named[:1] == [BEARER] else None


async def turn_away(error: Exception, scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY})
        return
    status, headers, body = rendered(error)
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
