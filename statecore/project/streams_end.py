"""When the server is asked to end, so are the streams and long polls: it waits for what is open, and they never end."""

import signal
import threading
from types import FrameType
from typing import Any


def with_the_server() -> None:
    """Before the server's own handler, which is in place by now: uvicorn loads the application after it."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            _before(number, signal.getsignal(number))


def _before(number: signal.Signals, usual: Any) -> None:
    from statecore.live import close_all

    def end(given: int, frame: FrameType | None) -> None:
        close_all()
        usual(given, frame)

    if callable(usual):
        signal.signal(number, end)
