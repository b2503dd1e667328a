"""`POST workers/{id}/claim/` with `wait`: asked once, and again when there is something to claim.

Each time it is the plain call that answers, with all its checks. In between the request is a future in a line.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import orjson

from statecore.live import Waiting, the_line

from .asgi import Application, Message, Receive, Scope, Send, header

PATH = re.compile(r"/api/v1/workers/([A-Za-z0-9._:-]{1,64})/claim/")
LONGEST_BODY = 64 * 1024
LONGEST_WAIT = 30.0
AT_ONCE = 8  # plain calls for those who wait: each takes a thread while it runs


class LongPolls:
    """Takes the claims that wait, and leaves everything else to the application behind it."""

    def __init__(self, others: Application) -> None:
        self.others = others
        self.room = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claim = PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if claim is None or _is_long(scope):
            await self.others(scope, receive, send)
            return
        read = await _read(receive)
        if read[-1]["type"] == "http.disconnect":
            return
        if read[-1].get("more_body"):
            await self.others(scope, _first(read, receive), send)
            return
        body = _joined(read)
        asked = Asked(self.others, scope, body, self.room)
        await asked.once()
        if asked.found_nothing and (seconds := _seconds(body)):
            await self._wait(asked, claim[1], seconds, receive)
        if not asked.is_gone:
            for message in asked.answer:
                await send(message)

    async def _wait(self, asked: Asked, worker_id: str, seconds: float, receive: Receive) -> None:
        line = the_line()
        if line.is_full:
            return
        leaves = asyncio.ensure_future(receive())
        try:
            await _until(time.monotonic() + seconds, line, worker_id, asked, leaves)
        finally:
            leaves.cancel()


async def _until(deadline: float, line: Waiting, worker_id: str, asked: Asked, leaves: asyncio.Future[Message]) -> None:
    """At the end it is asked once more: a worker that waits is one that lives."""
    async with line.turn(worker_id) as turn:
        while asked.found_nothing:
            left = deadline - time.monotonic()
            comes = asyncio.create_task(turn.comes())
            either: list[asyncio.Future[Any]] = [comes, leaves]
            try:
                await asyncio.wait(either, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
            finally:
                comes.cancel()
            if leaves.done():  # nobody would hear of what is claimed now
                asked.is_gone = True
                return
            if line.hub.closing.is_set():
                return
            await asked.once()
            if time.monotonic() >= deadline:
                return


class Asked:
    """The plain call and its last answer, kept until it is known whether it is the one to give."""

    def __init__(self, application: Application, scope: Scope, body: bytes, room: asyncio.Semaphore) -> None:
        self.application, self.scope, self.body, self.room = application, scope, body, room
        self.answer: list[Message] = []
        self.is_gone = False

    async def once(self) -> None:
        self.answer = []
        given: Iterator[Message] = iter([{"type": "http.request", "body": self.body, "more_body": False}])

        async def receive() -> Message:
            if (message := next(given, None)) is None:
                # The caller's leaving is looked for outside; in here the request never ends before it is answered.
                message = await asyncio.get_running_loop().create_future()
            return message

        async def send(message: Message) -> None:
            self.answer.append(message)

        async with self.room:
            await self.application(dict(self.scope), receive, send)

    @property
    def found_nothing(self) -> bool:
        if not self.answer or self.answer[0].get("status") != 200:
            return False
        body = b"".join(message.get("body", b"") for message in self.answer[1:])
        try:
            return bool(orjson.loads(body).get("tasks") == [])
        except (orjson.JSONDecodeError, AttributeError):
            return False


def _is_long(scope: Scope) -> bool:
    """As far as it says so: who sends its body in chunks does not."""
    length = header(scope, b"content-length")
    return length.isdigit() and int(length) > LONGEST_BODY


async def _read(receive: Receive) -> list[Message]:
    """What was said, to its end or to where it is too long for a claim that waits."""
    read, size, more = [], 0, True
    while more and size <= LONGEST_BODY:
        read.append(await receive())
        size, more = size + len(read[-1].get("body", b"")), read[-1].get("more_body", False)
    return read


def _joined(read: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in read)


def _first(read: list[Message], receive: Receive) -> Receive:
    """Told again from its beginning."""
    waiting = iter(read)

    async def told() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return told


def _seconds(body: bytes) -> float:
    """Zero for whatever the plain call would refuse: it has answered already."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return 0.0
    wait = given.get("wait", 0) if isinstance(given, dict) else 0
    return min(float(wait), LONGEST_WAIT) if isinstance(wait, int | float) and wait > 0 else 0.0
