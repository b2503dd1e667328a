"""`/ws/events/`: every event once, in order, at most four frames a second."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from statecore.delivery.live import Hub, PositionTooOld, StreamEvent, get_hub

from ..access import VIEW_EVENT
from . import stream_params
from .access import Caller
from .asgi import Scope, read_query
from .socket import FrameSender, Socket
from .stream_params import StreamParams, describe_skip

FRAME_SECONDS = 0.25
# After this long without matching events, the current position is sent: a reconnecting client then resumes from it, and
# clients detect a broken connection.
IDLE_SECONDS = 15.0


def render_frame(events: list[StreamEvent], epoch: int) -> str:
    texts = b",".join([event.text for event in events]).decode()
    return f'{{"type":"events","epoch":{epoch},"events":[{texts}]}}'


class EventsSocket(Socket):
    permission = VIEW_EVENT

    async def prepare(self, scope: Scope, caller: Caller) -> StreamParams:
        params = stream_params.read(read_query(scope), caller.visible)
        await params.check_epoch(get_hub())
        return params

    async def serve(self, params: StreamParams, hub: Hub, send: FrameSender) -> None:
        subscription, skipped = await params.subscribe(hub)
        sent_at = time.monotonic()

        async def notify(kind: str, **more: Any) -> None:
            await send.json(type=kind, position=subscription.position, epoch=subscription.epoch, **more)

        await notify("hello")
        if skipped:
            await notify("resnapshot", **describe_skip(skipped))
        while not hub.closing.is_set():
            await subscription.wait(IDLE_SECONDS)
            try:
                text = await subscription.take(render_frame)
            except PositionTooOld as reason:
                subscription.skip_to_end()
                await notify("resnapshot", **describe_skip(reason))
            else:
                if text is not None:
                    await send(text)
                elif time.monotonic() < sent_at + IDLE_SECONDS:
                    continue
                else:
                    await notify("position")
            sent_at = time.monotonic()
            await asyncio.sleep(FRAME_SECONDS)
