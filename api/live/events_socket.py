"""`/ws/events/`: every event once, in order, at most four frames a second."""

from __future__ import annotations

import asyncio
import time

from statecore.live import Hub, Told, TooOld

from ..permissions import VIEW_EVENT
from . import wishes
from .asgi import Scope, query
from .socket import Frames, Socket
from .visitor import Visitor
from .wishes import Wishes

PACE = 0.25
# Who wants few events is told how far all have come, and need not go back that far. Also when that is no further than
# before: a link that broke without a word is known by its silence.
QUIET = 15.0


def frame(events: list[Told]) -> str:
    return f'{{"type":"events","events":[{b",".join([event.text for event in events]).decode()}]}}'


class EventsSocket(Socket):
    permission = VIEW_EVENT

    async def prepare(self, scope: Scope, visitor: Visitor) -> Wishes:
        return wishes.read(query(scope), visitor.seen)

    async def speak(self, prepared: Wishes, here: Hub, send: Frames) -> None:
        following, is_too_old = await prepared.following(here)
        told, said_at = following.position, time.monotonic()
        await send.tell(type="hello", position=told)
        if is_too_old:
            await send.tell(type="resnapshot", position=told)
        while not here.closing.is_set():
            await here.beyond(following.position, QUIET)
            try:
                text = following.take(frame)
            except TooOld:
                following.position = here.ring.last
                await send.tell(type="resnapshot", position=following.position)
            else:
                if text is not None:
                    await send(text)
                elif time.monotonic() < said_at + QUIET:
                    continue
                else:
                    await send.tell(type="position", position=following.position)
            told, said_at = following.position, time.monotonic()
            await asyncio.sleep(PACE)
