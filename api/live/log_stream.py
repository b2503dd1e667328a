"""`GET tasks/{id}/logs/` as `text/event-stream`: one event per line, whose id is the number of the line.

The stream ends with an event `end` when the attempt has ended and all its lines were sent.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import orjson

from statecore.delivery.live import FollowedLog, Hub, Part, get_log_reader
from statecore.machines.task import Task
from statecore.read_models.task_logs import TaskState, read_states

from .. import entities
from ..logs import read_attempt
from ..query_params import QueryParams
from .access import Caller
from .asgi import Application, Receive, Scope, Send, read_header, read_query
from .events_socket import IDLE_SECONDS
from .stream import requests_stream, serve

PATH = re.compile(r"/api/v1/tasks/([A-Za-z0-9._:-]{1,64})/logs/?")
FRAME_SECONDS = 0.1  # between two parts of one stream


class LogStreams:
    """Serves requests that follow a log, and passes all others to `application`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if requests_stream(scope) and PATH.fullmatch(scope["path"]):
            await serve(scope, receive, send, Task.flow.permission("view"), _open)
        else:
            await self.application(scope, receive, send)


class LogParams(NamedTuple):
    task_id: str
    after: int
    attempt: int | None  # None for the lines of all attempts


async def _open(scope: Scope, caller: Caller, hub: Hub) -> AsyncIterator[bytes]:
    found = PATH.fullmatch(scope["path"])
    task_id = found[1] if found else ""
    params = QueryParams(read_query(scope), "after", "attempt")
    last_id = read_header(scope, b"last-event-id")
    start = QueryParams({"after": [last_id]}, "after") if last_id else params
    after, attempt = start.get_number("after") or 0, read_attempt(params)
    state = await hub.reader.run(_read_state, task_id)
    awaited = state.choose_attempt() if attempt is None else attempt
    return _yield_parts(LogParams(task_id, after, attempt), awaited, hub)


def _read_state(task_id: str) -> TaskState:
    entities.get_entity(Task, task_id)
    return read_states([task_id])[task_id]


async def _yield_parts(params: LogParams, awaited: int, hub: Hub) -> AsyncIterator[bytes]:
    """Yield the lines after a number, and those that are written until the awaited attempt has ended."""
    yield b"retry: 1000\n\n"
    position, sent_at = params.after, time.monotonic()
    async with get_log_reader().follow(params.task_id) as log:
        while not hub.closing.is_set():
            version, has_ended = log.version, log.task_state.has_ended(awaited)
            parts = await _take(log, position)
            if parts:
                position = parts[-1].last
                if text := b"".join(part.text for part in parts if params.attempt in (None, part.attempt)):
                    yield text
                    sent_at = time.monotonic()
                    await asyncio.sleep(FRAME_SECONDS)
            elif has_ended:
                yield b"event: end\ndata: %b\n\n" % orjson.dumps({"attempt": awaited, "state": log.task_state.state})
                return
            else:
                if time.monotonic() >= sent_at + IDLE_SECONDS:
                    yield b": still here\n\n"
                    sent_at = time.monotonic()
                await _wait(hub, log, version)


async def _take(log: FollowedLog, position: int) -> list[Part]:
    """Return the next lines: those in memory, or the next stored ones for a viewer that is further behind."""
    if position >= log.last:
        return []
    if position < log.start:
        return await get_log_reader().read_stored(log.task_id, position)
    return log.read_after(position)


async def _wait(hub: Hub, log: FollowedLog, version: int) -> None:
    waiting = [
        asyncio.create_task(log.wait_beyond(version, IDLE_SECONDS)), asyncio.create_task(hub.closing.wait()),
    ]  # fmt: skip
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
