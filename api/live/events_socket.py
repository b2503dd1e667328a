"""`/ws/events/`: every event once, in order, at most four frames a second."""

from __future__ import annotations

import asyncio
import time

from statecore.delivery.live import Hub, PositionTooOld, StreamEvent

from ..access import VIEW_EVENT
from . import stream_params
from .access import Caller
from .asgi import Scope, read_query
from .socket import FrameSender, Socket
from .stream_params import StreamParams

FRAME_SECONDS = 0.25
# After this long without matching events, the current position is sent: a reconnecting client then resumes from it, and
# clients detect a broken connection.
IDLE_SECONDS = 15.0


def render_frame(events: list[StreamEvent]) -> str:
    return f'{{"type":"events","events":[{b",".join([event.text for event in events]).decode()}]}}'


class EventsSocket(Socket):
    permission = VIEW_EVENT

    async def prepare(self, scope: Scope, caller: Caller) -> StreamParams:
        return stream_params.read(read_query(scope), caller.visible)

    async def serve(self, params: StreamParams, hub: Hub, send: FrameSender) -> None:
        subscription, is_too_old = await params.subscribe(hub)
        sent_at = time.monotonic()
        await send.json(type="hello", position=subscription.position)
        if is_too_old:
            await send.json(type="resnapshot", position=subscription.position)
        while not hub.closing.is_set():
            await hub.wait_beyond(subscription.position, IDLE_SECONDS)
            try:
                text = await subscription.take(render_frame)
            except PositionTooOld:
                subscription.position = hub.ring.last
                await send.json(type="resnapshot", position=subscription.position)
            else:
                if text is not None:
                    await send(text)
                elif time.monotonic() < sent_at + IDLE_SECONDS:
                    continue
                else:
                    await send.json(type="position", position=subscription.position)
            sent_at = time.monotonic()
            await asyncio.sleep(FRAME_SECONDS)
