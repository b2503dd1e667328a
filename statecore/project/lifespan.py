"""The ASGI lifespan: reports the process, and closes streams and long polls when the server receives a signal to stop.

The server waits for open requests before it sends `lifespan.shutdown`, and streams never end on their own. So the
signal itself is handled here, before the server's handler.
"""

import asyncio
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
            await _run_lifespan(receive, send)
        else:
            await application(scope, receive, send)

    return route


async def _run_lifespan(receive: Receive, send: Send) -> None:
    await receive()
    from statecore.operations.process_reporter import ProcessReporter, get_max_memory

    reporter = ProcessReporter("web")
    reporter.start(max_memory=get_max_memory())
    # The server has installed its handlers by now; ours call them.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            _close_streams_before(number, signal.getsignal(number))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    # uvicorn ends by the signal itself, so nothing runs at the exit.
    await asyncio.to_thread(reporter.sign_off)
    await send({"type": "lifespan.shutdown.complete"})


def _close_streams_before(number: signal.Signals, server_handler: Any) -> None:
    from statecore.delivery.live import close_all_hubs

    def handle(given: int, frame: FrameType | None) -> None:
        close_all_hubs()
        server_handler(given, frame)

    if callable(server_handler):
        signal.signal(number, handle)
