"""Waiting for something real to become true."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Return as soon as the condition holds; fail when it never does."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition} did not become true in {timeout} seconds")
        time.sleep(0.02)
