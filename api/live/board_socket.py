"""`/ws/board/`: the board, then what changes in it, at most twice a second; a beat when nothing does."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from statecore.board import Standing, patch_between, told
from statecore.kernel import registry
from statecore.live import Hub, the_board

from .asgi import Scope
from .socket import Frames, Socket
from .visitor import Visitor

PACE = 0.5
QUIET = 15.0  # a link that broke without a word is known by its silence
BEAT = '{"type":"beat"}'


class Part:
    """The board of somebody who sees some machines only. All others see the same bytes."""

    def __init__(self, seen: frozenset[str]) -> None:
        self.seen = seen
        self.before: dict[str, Any] = {}

    def told(self, standing: Standing) -> bytes:
        before, self.before = self.before, told(standing, self.seen)
        if not before:
            return orjson.dumps({"type": "snapshot", **self.before})
        return orjson.dumps({"type": "delta", **patch_between(before, self.before)})


class BoardSocket(Socket):
    async def prepare(self, scope: Scope, visitor: Visitor) -> frozenset[str]:
        return visitor.seen

    async def speak(self, prepared: frozenset[str], here: Hub, send: Frames) -> None:
        board, part = the_board(), Part(prepared) if len(prepared) < len(registry.flows()) else None
        async with board.watching():
            version = 0
            while not here.closing.is_set():
                if await board.beyond(version, QUIET):
                    text = part.told(board.standing) if part and board.standing else board.told_after(version)
                    version = board.version
                    await send(text.decode())
                    await asyncio.sleep(PACE)
                else:
                    await send(BEAT)
