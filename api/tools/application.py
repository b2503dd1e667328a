"""The tools at their address: who calls is asked first, then the protocol takes over."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings

from api.authentication import read
from api.live.asgi import REFUSED, Message, Receive, refuse
from api.refusals import MethodNotAllowed, NotAuthenticated, TooLarge
from statecore.records.token import Token

ADDRESS = "/mcp"
TOKEN = "statecore.token"  # noqa: S105 - where in the scope it is


class WithTools:
    """The whole site, and the tools at /mcp/."""

    def __init__(self, site: Any) -> None:
        self.site = site
        self.manager: Any = None
        self.running: asyncio.Task[None] | None = None
        self.is_ready = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") != ADDRESS:
            await self.site(scope, receive, send)
            return
        try:
            token = await _caller(scope)
            body = await whole(receive)
        except REFUSED as error:
            await refuse(error, send)
            return
        await self._run()
        await self.manager.handle_request({**scope, TOKEN: token}, _told_again(body, receive), send)

    async def _run(self) -> None:
        """Started by the first call and kept for the life of the process: there is no other moment to do it."""
        if self.running is None:
            self.running = asyncio.create_task(self._live())
        await self.is_ready.wait()

    async def _live(self) -> None:
        # The protocol takes a second to load, which most processes never need.
        protocol = await asyncio.to_thread(import_module, "api.tools.server")
        self.manager = protocol.manager(self.site)
        async with self.manager.run():
            self.is_ready.set()
            await asyncio.Event().wait()


async def _caller(scope: Any) -> Token:
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    token: Token | None = await database_sync_to_async(read)(header)
    if token is None:
        raise NotAuthenticated("tools are for programs with a token: `Authorization: Bearer <token>` is expected")
    if scope["method"] != "POST":  # without sessions there is nothing to listen to, and nothing to end
        raise MethodNotAllowed(f"{scope['method']} is not for this address", methods=["POST"])
    return token


async def whole(receive: Receive) -> bytes:
    """What was sent, if it is not more than a body of the API may be: the protocol itself would read on and on."""
    limit, parts, size, more = settings.DATA_UPLOAD_MAX_MEMORY_SIZE, [], 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge(f"the body is larger than {limit} bytes")
        more = message.get("more_body", False)
    return b"".join(parts)


def _told_again(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def told() -> Message:
        return waiting.pop() if waiting else await receive()

    return told
