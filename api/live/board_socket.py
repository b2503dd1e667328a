"""`/ws/board/`: the board, then what changes in it, at most twice a second; a beat when nothing does."""

from __future__ import annotations

import asyncio

from statecore.kernel import registry
from statecore.live import Hub, the_board

from ..screens.parameters import Query
from .asgi import Scope, query
from .socket import Frames, Socket
from .visitor import Visitor

PACE = 0.5
QUIET = 15.0  # a link that broke without a word is known by its silence
BEAT = '{"type":"beat"}'


class BoardSocket(Socket):
    async def prepare(self, scope: Scope, visitor: Visitor) -> frozenset[str] | None:
        """Which machines it is about; None is all of them. Its address has nothing to choose by."""
        Query(query(scope))
        return visitor.seen if len(visitor.seen) < len(registry.flows()) else None

    async def speak(self, prepared: frozenset[str] | None, here: Hub, send: Frames) -> None:
        board, version = the_board(), 0
        async with board.watching():
            while not here.closing.is_set():
                if await board.beyond(version, QUIET):
                    text, version = board.told_after(version, prepared), board.version
                    await send(text)
                    await asyncio.sleep(PACE)
                else:
                    await send(BEAT)
