"""Serves the tools at /mcp/: authenticates the caller, then passes the request to the MCP server."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings

from statecore.api.live.asgi import REFUSED, Message, Receive, refuse
from statecore.api.refusals import MethodNotAllowed, NotAuthenticated
from statecore.kernel.refusals import TooLarge
from statecore.records.token import Token

from ..access import read_token

PATH = "/mcp"
TOKEN = "statecore.token"  # noqa: S105 - a key of the ASGI scope


class ToolsMiddleware:
    """Serves /mcp/, and passes all other requests to `application`."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.manager: Any = None
        self.running: asyncio.Task[None] | None = None
        self.is_ready = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") != PATH:
            await self.application(scope, receive, send)
            return
        try:
            token = await _authenticate(scope)
            body = await _read_body(receive)
        except REFUSED as error:
            await refuse(error, send)
            return
        await self._start()
        await self.manager.handle_request({**scope, TOKEN: token}, _replay(body, receive), send)

    async def _start(self) -> None:
        """Start the MCP server if this is the first call; it runs until the process ends."""
        if self.running is None:
            self.running = asyncio.create_task(self._run())
        await self.is_ready.wait()

    async def _run(self) -> None:
        # The import takes a second, and most processes never need it.
        server = await asyncio.to_thread(import_module, "statecore.api.tools.server")
        self.manager = server.create_manager(self.application)
        async with self.manager.run():
            self.is_ready.set()
            await asyncio.Event().wait()


async def _authenticate(scope: Any) -> Token:
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    token: Token | None = await database_sync_to_async(read_token)(header)
    if token is None:
        raise NotAuthenticated("tools require a token: `Authorization: Bearer <token>`")
    if scope["method"] != "POST":  # GET and DELETE are for sessions, which this server does not have
        raise MethodNotAllowed(f"{scope['method']} is not supported by this URL", methods=["POST"])
    return token


async def _read_body(receive: Receive) -> bytes:
    """Return the body; raises TooLarge above the limit of the API, because the MCP server itself has none."""
    limit, parts, size, more = settings.DATA_UPLOAD_MAX_MEMORY_SIZE, [], 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge(f"the body is larger than {limit} bytes")
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    remaining = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return remaining.pop() if remaining else await receive()

    return replay
