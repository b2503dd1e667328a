"""`/ws/board/`: the board, then what changes in it, at most twice a second."""

from __future__ import annotations

import asyncio
from typing import Any

from statecore.live import Hub, the_board

from .socket import Frames, Socket

PACE, QUIET = 0.5, 60.0


class BoardSocket(Socket):
    async def speak(self, prepared: Any, here: Hub, send: Frames) -> None:
        board = the_board()
        async with board.watching():
            version = 0
            while not here.closing.is_set():
                if await board.beyond(version, QUIET):
                    text, version = board.told_after(version), board.version
                    await send(text.decode())
                    await asyncio.sleep(PACE)
