"""The tools at their address: who calls is asked first, then the protocol takes over."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from channels.db import database_sync_to_async
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from api.authentication import read
from api.refusals import NotAuthenticated
from statecore.records.token import Token

from .server import TOKEN, Application, server

ADDRESS = "/mcp"


class WithTools:
    """The whole site, and the tools at /mcp/. Each request stands alone: any process may answer the next one."""

    def __init__(self, site: Application) -> None:
        self.site = site
        self.manager = StreamableHTTPSessionManager(server(site), stateless=True, json_response=True)
        self.running: asyncio.Task[None] | None = None
        self.is_ready = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") != ADDRESS:
            await self.site(scope, receive, send)
            return
        try:
            token = await _caller(scope)
        except NotAuthenticated as refusal:
            await _refuse(send, refusal)
            return
        await self._run()
        await self.manager.handle_request({**scope, TOKEN: token}, receive, send)

    async def _run(self) -> None:
        """Started by the first call and kept for the life of the process: there is no other moment to do it."""
        if self.running is None:
            self.running = asyncio.create_task(self._live())
        await self.is_ready.wait()

    async def _live(self) -> None:
        async with self.manager.run():
            self.is_ready.set()
            await asyncio.Event().wait()


async def _caller(scope: Any) -> Token:
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    token: Token | None = await database_sync_to_async(read)(header)
    if token is None:
        raise NotAuthenticated("tools are for programs with a token: `Authorization: Bearer <token>` is expected")
    return token


async def _refuse(send: Any, refusal: NotAuthenticated) -> None:
    problem = {"type": "about:blank", "title": "Unauthorized", "status": refusal.status, **refusal.as_dict()}
    headers = [(b"content-type", b"application/problem+json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(problem)})
