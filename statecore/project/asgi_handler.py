"""The ASGI handler: POSTs with a token go straight to the API, all others through Django's handler.

Django starts a thread for each request, which takes as long as a heartbeat itself. Here a few threads serve the calls
of agents. The other methods may stream their bodies, which Django's handler does.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler

from statecore.api.live.asgi import read_header
from statecore.api.token_fastpath import BASE

from .token_calls import TokenCalls

THREADS = 8  # as many as a rest server has


class Handler(ASGIHandler):
    def __init__(self) -> None:
        super().__init__()
        self.calls = TokenCalls()
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="token-calls")

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if _is_token_post(scope):
            await self._respond(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _respond(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with closing(body):
            request, response = self.create_request(scope, body)
            if request is not None:
                loop = asyncio.get_running_loop()
                response = await loop.run_in_executor(self.threads, self.calls.respond, request)
        if response is not None:
            await self.send_response(response, send)


def _is_token_post(scope: dict[str, Any]) -> bool:
    if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
        return False
    return str(scope["path"]).startswith(BASE) and bool(read_header(scope, b"authorization"))
