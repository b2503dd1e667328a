"""Claims that wait for a task: `POST workers/{id}/claim/` with `wait`, the number of seconds.

The claim is first made as usual, without waiting. If it returns no task, the request waits, without a thread, until a
task for this worker may be ready; then the claim is repeated, until it returns a task or the time is over. Each
repetition is a complete request to Django, with all its checks.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import orjson

from statecore.delivery.live import ClaimQueue, get_claim_queue

from .asgi import Application, Message, Receive, Scope, Send, read_header

PATH = re.compile(r"/api/v1/workers/([A-Za-z0-9._:-]{1,64})/claim/?")
MAX_BODY_SIZE = 64 * 1024
MAX_WAIT_SECONDS = 30.0
MAX_CONCURRENT_CALLS = 8  # a call takes a thread while it runs


class LongPolling:
    """Serves claims that wait, and passes all other requests to `application`."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claim = PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if claim is None or _declares_large_body(scope):
            await self.application(scope, receive, send)
            return
        messages = await _read_body(receive)
        if messages[-1]["type"] == "http.disconnect":
            return
        if messages[-1].get("more_body"):
            await self.application(scope, _replay(messages, receive), send)
            return
        body = b"".join(message.get("body", b"") for message in messages)
        call = ClaimCall(self.application, scope, body, self.slots)
        await call.run()
        if call.claimed_nothing and (seconds := _wait_seconds(body)):
            await self._wait(call, claim[1], seconds, receive)
        if not call.is_abandoned:
            for message in call.response:
                await send(message)

    async def _wait(self, call: ClaimCall, worker_id: str, seconds: float, receive: Receive) -> None:
        queue = get_claim_queue()
        if queue.is_full:
            return
        disconnected = asyncio.ensure_future(receive())
        try:
            await _repeat_until(time.monotonic() + seconds, queue, worker_id, call, disconnected)
        finally:
            disconnected.cancel()


async def _repeat_until(
    deadline: float, queue: ClaimQueue, worker_id: str, call: ClaimCall, disconnected: asyncio.Future[Message]
) -> None:
    """Repeat the claim whenever the queue wakes this worker, and once at the deadline.

    The last one is also a heartbeat: a worker that waits for a task must not look unresponsive.
    """
    async with queue.join(worker_id) as ticket:
        while call.claimed_nothing:
            seconds_left = deadline - time.monotonic()
            woken = asyncio.create_task(ticket.wait())
            either: list[asyncio.Future[Any]] = [woken, disconnected]
            try:
                await asyncio.wait(either, timeout=max(seconds_left, 0), return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
            if disconnected.done():  # a claimed task would be lost
                call.is_abandoned = True
                return
            if queue.hub.closing.is_set():
                return
            await call.run()
            if time.monotonic() >= deadline:
                return


class ClaimCall:
    """A claim without waiting, which can be repeated, and the response to its last repetition."""

    def __init__(self, application: Application, scope: Scope, body: bytes, slots: asyncio.Semaphore) -> None:
        self.application, self.scope, self.body, self.slots = application, scope, body, slots
        self.response: list[Message] = []
        self.is_abandoned = False

    async def run(self) -> None:
        self.response = []
        request: Iterator[Message] = iter([{"type": "http.request", "body": self.body, "more_body": False}])

        async def receive() -> Message:
            if (message := next(request, None)) is None:
                # The application never receives a disconnect: `_wait` handles it.
                message = await asyncio.get_running_loop().create_future()
            return message

        async def send(message: Message) -> None:
            self.response.append(message)

        async with self.slots:
            await self.application(dict(self.scope), receive, send)

    @property
    def claimed_nothing(self) -> bool:
        if not self.response or self.response[0].get("status") != 200:
            return False
        body = b"".join(message.get("body", b"") for message in self.response[1:])
        try:
            return bool(orjson.loads(body).get("tasks") == [])
        except (orjson.JSONDecodeError, AttributeError):
            return False


def _declares_large_body(scope: Scope) -> bool:
    """Whether the Content-Length is too large for a claim; a chunked body has none."""
    length = read_header(scope, b"content-length")
    return length.isdigit() and int(length) > MAX_BODY_SIZE


async def _read_body(receive: Receive) -> list[Message]:
    """Return the messages of the body; the last one has `more_body` if the body is larger than the limit."""
    messages, size, more = [], 0, True
    while more and size <= MAX_BODY_SIZE:
        messages.append(await receive())
        size, more = size + len(messages[-1].get("body", b"")), messages[-1].get("more_body", False)
    return messages


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that repeats these messages before it reads further ones."""
    remaining = iter(messages)

    async def replay() -> Message:
        message = next(remaining, None)
        return await receive() if message is None else message

    return replay


def _wait_seconds(body: bytes) -> float:
    """Return the `wait` of a claim; 0 if it is invalid, which the first claim has refused already."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return 0.0
    wait = fields.get("wait", 0) if isinstance(fields, dict) else 0
    return min(float(wait), MAX_WAIT_SECONDS) if isinstance(wait, int | float) and wait > 0 else 0.0
