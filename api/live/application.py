"""Everything in its place: sockets, streams and long polls here, the rest behind."""

from __future__ import annotations

from statecore.kernel.refusals import NotFound

from .asgi import Application, Receive, Scope, Send
from .board_socket import BoardSocket
from .events_socket import EventsSocket
from .long_poll import LongPolls
from .socket import Socket, turn_away
from .stream import Streams


class Nowhere(Socket):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await turn_away(NotFound("there is no socket at this address"), scope, send)


SOCKETS: dict[str, Socket] = {"/ws/events/": EventsSocket(), "/ws/board/": BoardSocket()}


def application(django: Application) -> Application:
    pages = Streams(LongPolls(django))

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await SOCKETS.get(scope["path"], Nowhere())(scope, receive, send)
        else:
            await pages(scope, receive, send)

    return route
