"""The server's life as an ASGI application sees it: when it is asked to end, so are the streams and the long polls.

A server that ends waits for what is open, and those never end by themselves. It tells nobody that it waits, so the
signal that asks it to is heard here, too.
"""

import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import FrameType
from typing import Any

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def with_lifespan(application: Application) -> Application:
    async def route(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await application(scope, receive, send)

    return route


async def _live(receive: Receive, send: Send) -> None:
    await receive()
    # By now the server's own handlers are in place, and ours go before them.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            _end_streams_before(number, signal.getsignal(number))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def _end_streams_before(number: signal.Signals, usual: Any) -> None:
    from statecore.live import close_all

    def end(given: int, frame: FrameType | None) -> None:
        close_all()
        usual(given, frame)

    if callable(usual):
        signal.signal(number, end)
