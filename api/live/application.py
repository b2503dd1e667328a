"""Routes WebSockets, event streams and long polls, and passes every other request to Django."""

from __future__ import annotations

from statecore.kernel.refusals import NotFound

from .asgi import Application, Receive, Scope, Send
from .board_socket import BoardSocket
from .body_limit import BodyLimit
from .events_socket import EventsSocket
from .log_stream import LogStreams
from .long_poll import LongPolling
from .socket import Socket, refuse_handshake
from .stream import EventStreams


class UnknownSocket(Socket):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await refuse_handshake(NotFound("no WebSocket at this URL"), scope, send)


SOCKETS: dict[str, Socket] = {"/ws/events/": EventsSocket(), "/ws/board/": BoardSocket()}


def application(django: Application) -> Application:
    http = EventStreams(LogStreams(LongPolling(BodyLimit(django))))

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await SOCKETS.get(scope["path"], UnknownSocket())(scope, receive, send)
        else:
            await http(scope, receive, send)

    return route
