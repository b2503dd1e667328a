"""`/ws/board/`: the board, then what changes in it, at most twice a second; a beat when nothing does."""

from __future__ import annotations

import asyncio

import orjson

from statecore.board import of_machines
from statecore.kernel import registry
from statecore.live import Hub, the_board

from .asgi import Scope
from .socket import Frames, Socket
from .visitor import Visitor

PACE = 0.5
QUIET = 15.0  # a link that broke without a word is known by its silence
BEAT = '{"type":"beat"}'


def _for(seen: frozenset[str], text: bytes) -> bytes:
    """All see the same bytes but those who see some machines only."""
    if len(seen) == len(registry.flows()):
        return text
    return orjson.dumps(of_machines(orjson.loads(text), seen))


class BoardSocket(Socket):
    async def prepare(self, scope: Scope, visitor: Visitor) -> frozenset[str]:
        return visitor.seen

    async def speak(self, prepared: frozenset[str], here: Hub, send: Frames) -> None:
        board = the_board()
        async with board.watching():
            version = 0
            while not here.closing.is_set():
                if await board.beyond(version, QUIET):
                    text, version = board.told_after(version), board.version
                    await send(_for(prepared, text).decode())
                    await asyncio.sleep(PACE)
                else:
                    await send(BEAT)
