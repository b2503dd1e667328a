"""`/ws/board/`: a snapshot of the board, then its changes at most twice a second, and keep-alives in between."""

from __future__ import annotations

import asyncio

from statecore.delivery.live import Hub, get_board
from statecore.kernel import registry

from ..query_params import QueryParams
from .access import Caller
from .asgi import Scope, read_query
from .socket import FrameSender, Socket

FRAME_SECONDS = 0.5
IDLE_SECONDS = 15.0  # a client that receives nothing for longer knows that the connection is broken
KEEP_ALIVE = '{"type":"beat"}'


class BoardSocket(Socket):
    async def prepare(self, scope: Scope, caller: Caller) -> frozenset[str] | None:
        """Return the visible machines, None for all of them; the URL takes no parameters."""
        QueryParams(read_query(scope))
        return caller.visible if len(caller.visible) < len(registry.flows()) else None

    async def serve(self, visible: frozenset[str] | None, hub: Hub, send: FrameSender) -> None:
        board, version = get_board(), 0
        async with board.watch():
            while not hub.closing.is_set():
                if await board.wait_beyond(version, IDLE_SECONDS):
                    text, version = board.render_frame(version, visible), board.version
                    await send(text)
                    await asyncio.sleep(FRAME_SECONDS)
                else:
                    await send(KEEP_ALIVE)
