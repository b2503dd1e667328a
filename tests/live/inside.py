"""The application in this process, without a server: a loop in a thread, and connections made of queues."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from channels.layers import channel_layers

from api.live.application import application
from statecore.live import Hub, hub

T = TypeVar("T")


class Inside:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def do(self, deed: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(deed, self.loop).result(30)

    @property
    def hub(self) -> Hub:
        async def here() -> Hub:
            return hub()

        return self.do(here())

    def socket(self, path: str, headers: dict[str, str], query: str = "") -> Connection:
        return Connection(self, path, headers, query)

    def close(self) -> None:
        self.do(_end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Connection:
    """One socket. It takes nothing while `is_slow`."""

    def __init__(self, inside: Inside, path: str, headers: dict[str, str], query: str) -> None:
        self.inside, self.messages = inside, list[dict[str, Any]]()
        self.texts, self.times = list[str](), list[float]()  # of the messages, and when they left
        self.coming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.takes = asyncio.Event()
        self.closed: int | None = None
        self.takes.set()
        given = [(b"host", b"localhost"), *((name.lower().encode(), value.encode()) for name, value in headers.items())]
        scope = {
            "type": "websocket", "path": path, "query_string": query.encode(), "headers": given, "subprotocols": [],
            "extensions": {},
        }  # fmt: skip
        self.say({"type": "websocket.connect"})
        asyncio.run_coroutine_threadsafe(self._live(scope), inside.loop)

    async def _live(self, scope: dict[str, Any]) -> None:
        await application(_nowhere)(scope, self.coming.get, self._take)

    async def _take(self, message: Any) -> None:
        await self.takes.wait()
        if message["type"] == "websocket.send":
            self.texts.append(message["text"])
            self.times.append(self.inside.loop.time())
            self.messages.append(json.loads(message["text"]))
        elif message["type"] == "websocket.close":
            self.closed = message["code"]

    def say(self, message: dict[str, Any]) -> None:
        self.inside.loop.call_soon_threadsafe(self.coming.put_nowait, message)

    def stall(self) -> None:
        self.inside.loop.call_soon_threadsafe(self.takes.clear)

    def go_on(self) -> None:
        self.inside.loop.call_soon_threadsafe(self.takes.set)

    def leave(self) -> None:
        self.say({"type": "websocket.disconnect", "code": 1000})

    @property
    def positions(self) -> list[int]:
        return [
            each["position"] for message in self.messages if message["type"] == "events" for each in message["events"]
        ]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]


async def _nowhere(*_: Any) -> None:
    raise AssertionError("nothing here asks Django")


@contextmanager
def inside() -> Iterator[Inside]:
    channel_layers.backends.clear()
    made = Inside()
    try:
        yield made
    finally:
        made.close()
        channel_layers.backends.clear()
