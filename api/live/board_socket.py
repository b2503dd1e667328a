"""`/ws/board/`: the board, then what changes in it, at most twice a second; a beat when nothing does."""

from __future__ import annotations

import asyncio
import random

from statecore.kernel import registry
from statecore.live import Hub, the_board

from .asgi import Scope
from .socket import Frames, Socket
from .visitor import Visitor

PACE = 0.5
SPREAD = 0.2  # all hear of the same change: each has a moment of its own, so that none waits for all the others
QUIET = 15.0  # a link that broke without a word is known by its silence
BEAT = '{"type":"beat"}'


class BoardSocket(Socket):
    async def prepare(self, scope: Scope, visitor: Visitor) -> frozenset[str] | None:
        """Which machines it is about; None is all of them."""
        return visitor.seen if len(visitor.seen) < len(registry.flows()) else None

    async def speak(self, prepared: frozenset[str] | None, here: Hub, send: Frames) -> None:
        board, version = the_board(), 0
        moment = random.uniform(0, SPREAD)  # noqa: S311 - nobody gains from guessing it
        async with board.watching():
            while not here.closing.is_set():
                if not await board.beyond(version, QUIET):
                    await send(BEAT)
                    continue
                if version:
                    await asyncio.sleep(moment)
                text, version = board.told_after(version, prepared), board.version
                await send(text)
                await asyncio.sleep(PACE - moment)
