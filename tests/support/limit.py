"""Aborts a test that hangs and prints its stacks; pytest-xdist continues with a new worker.

pytest-timeout alone would leave the child processes of the test running, and does not print the stack of a test that
waits for a browser.
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
    timer = threading.Timer(settings.timeout, abort_run, (item, settings.timeout))
    timer.daemon = True
    item.cancel_timeout = timer.cancel
    timer.start()
    return True


def abort_run(item: pytest.Item, seconds: float) -> None:
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    try:
        sys.stderr.write(f"\n{item.nodeid} was ended: it took longer than {seconds:.0f} seconds.\n")
        for name, frame in running_frames():
            sys.stderr.write(f"\n{name}:\n{''.join(traceback.format_stack(frame))}")
        sys.stderr.flush()
    finally:
        kill_child_processes()
        os._exit(1)


def kill_child_processes() -> None:
    """A forked child keeps the pipe open that pytest-xdist watches for the end of the worker."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def running_frames() -> Iterator[tuple[str, FrameType]]:
    """Yields the frame of every thread, and of every suspended greenlet: Playwright waits in one."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread.ident in frames and thread is not threading.current_thread():
            yield thread.name, frames[thread.ident]
    for each in gc.get_objects():
        if isinstance(each, greenlet) and each.gr_frame is not None:
            yield "set aside", each.gr_frame
