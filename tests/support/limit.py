"""A test that hangs is ended, and says where it was; pytest-xdist goes on with another process.

pytest-timeout would leave running what the test has started, and it does not know where a test stands that waits for a
browser.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import psutil
import pytest
from greenlet import greenlet


def pytest_timeout_set_timer(item: Any, settings: Any) -> bool:
    timer = threading.Timer(settings.timeout, end, (item, settings.timeout))
    timer.daemon = True
    item.cancel_timeout = timer.cancel
    timer.start()
    return True


def end(item: pytest.Item, seconds: float) -> None:
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    try:
        sys.stderr.write(f"\n{item.nodeid} was ended: it took longer than {seconds:.0f} seconds.\n")
        for name, frame in standing():
            sys.stderr.write(f"\n{name}:\n{''.join(traceback.format_stack(frame))}")
        sys.stderr.flush()
    finally:
        end_what_was_started()
        os._exit(1)


def end_what_was_started() -> None:
    """A forked one has the pipe on which pytest-xdist would wait to hear of our end."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def standing() -> Iterator[tuple[str, FrameType]]:
    """Where every thread is. What waits for a browser is not on the stack of its thread, but set aside."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread.ident in frames and thread is not threading.current_thread():
            yield thread.name, frames[thread.ident]
    for each in gc.get_objects():
        if isinstance(each, greenlet) and each.gr_frame is not None:
            yield "set aside", each.gr_frame
