"""Run the ASGI application in this process: an event loop in a thread, and sockets made of queues."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from channels.layers import channel_layers

from statecore.api.live.application import application
from statecore.delivery.live import Hub, get_hub

T = TypeVar("T")


class InProcessApp:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    @property
    def hub(self) -> Hub:
        async def current_hub() -> Hub:
            return get_hub()

        return self.run(current_hub())

    def socket(self, path: str, headers: dict[str, str], query: str = "") -> Connection:
        return Connection(self, path, headers, query)

    def close(self) -> None:
        self.run(_end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Connection:
    """One WebSocket. Between `stall` and `resume` it receives nothing."""

    def __init__(self, app: InProcessApp, path: str, headers: dict[str, str], query: str) -> None:
        self.app, self.messages = app, list[dict[str, Any]]()
        self.texts, self.times = list[str](), list[float]()  # the raw messages, and when each was sent
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.accepts = asyncio.Event()
        self.closed: int | None = None
        self.accepts.set()
        given = [(b"host", b"localhost"), *((name.lower().encode(), value.encode()) for name, value in headers.items())]
        scope = {
            "type": "websocket", "path": path, "query_string": query.encode(), "headers": given, "subprotocols": [],
            "extensions": {},
        }  # fmt: skip
        self.put({"type": "websocket.connect"})
        asyncio.run_coroutine_threadsafe(self._serve(scope), app.loop)

    async def _serve(self, scope: dict[str, Any]) -> None:
        await application(_unreachable)(scope, self.incoming.get, self._receive)

    async def _receive(self, message: Any) -> None:
        await self.accepts.wait()
        if message["type"] == "websocket.send":
            self.texts.append(message["text"])
            self.times.append(self.app.loop.time())
            self.messages.append(json.loads(message["text"]))
        elif message["type"] == "websocket.close":
            self.closed = message["code"]

    def put(self, message: dict[str, Any]) -> None:
        self.app.loop.call_soon_threadsafe(self.incoming.put_nowait, message)

    def stall(self) -> None:
        self.app.loop.call_soon_threadsafe(self.accepts.clear)

    def resume(self) -> None:
        self.app.loop.call_soon_threadsafe(self.accepts.set)

    def leave(self) -> None:
        self.put({"type": "websocket.disconnect", "code": 1000})

    @property
    def positions(self) -> list[int]:
        return [
            each["position"] for message in self.messages if message["type"] == "events" for each in message["events"]
        ]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]


async def _unreachable(*_: Any) -> None:
    raise AssertionError("no request should reach Django")


@contextmanager
def running_app() -> Iterator[InProcessApp]:
    channel_layers.backends.clear()
    app = InProcessApp()
    try:
        yield app
    finally:
        app.close()
        channel_layers.backends.clear()
