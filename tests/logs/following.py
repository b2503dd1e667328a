"""A follower of a log in the process of the test: the ASGI application, called without a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from statecore.api.live.application import application
from tests.live.in_process import InProcessApp


class Follower:
    """Reads an event stream until it ends or `leave` is called."""

    def __init__(
        self, app: InProcessApp, headers: dict[str, str], task: str = "t", query: str = "", **more: str
    ) -> None:
        self.app, self.text, self.status, self.has_ended = app, "", 0, False
        given = {"host": "localhost", "accept": "text/event-stream", **headers, **more}
        scope = {
            "type": "http", "method": "GET", "path": f"/api/v1/tasks/{task}/logs/", "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        }  # fmt: skip
        self.gone = asyncio.Event()
        asyncio.run_coroutine_threadsafe(application(self._unreachable)(scope, self._receive, self._send), app.loop)

    async def _unreachable(self, *_: Any) -> None:
        raise AssertionError("no request should reach Django")

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self.has_ended = message["type"] == "http.response.body" and not message.get("more_body")

    def leave(self) -> None:
        self.app.loop.call_soon_threadsafe(self.gone.set)

    @property
    def messages(self) -> list[dict[str, str]]:
        blocks = [block for block in self.text.split("\n\n") if "data: " in block]
        return [dict(row.split(": ", 1) for row in block.splitlines()) for block in blocks]

    @property
    def lines(self) -> list[tuple[int, str]]:
        return [(int(each["id"]), json.loads(each["data"])["text"]) for each in self.messages if "id" in each]

    @property
    def end(self) -> dict[str, Any] | None:
        found = [json.loads(each["data"]) for each in self.messages if each.get("event") == "end"]
        return found[-1] if found else None
