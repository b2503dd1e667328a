"""An event loop in a thread, for the `async` functions of a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

GRACE_SECONDS = 3.0


@contextmanager
def running_loop(name: str) -> Iterator[asyncio.AbstractEventLoop]:
    """Runs the loop until the end of the block, then cancels what is still running.

    A function that blocks the loop is left behind: its thread ends with the process.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(GRACE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(GRACE_SECONDS)
        if not thread.is_alive():
            loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    if others:
        await asyncio.wait(others, timeout=GRACE_SECONDS)
