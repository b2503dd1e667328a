"""The tools at their address: who calls is asked first, then the protocol takes over."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import orjson
from channels.db import database_sync_to_async

from api.authentication import read
from api.refusals import NotAuthenticated
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
    return token


async def _refuse(send: Any, refusal: NotAuthenticated) -> None:
    problem = {"type": "about:blank", "title": "Unauthorized", "status": refusal.status, **refusal.as_dict()}
    headers = [(b"content-type", b"application/problem+json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(problem)})
