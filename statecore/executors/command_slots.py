"""The limit of commands that run at the same time in this process: gates, tests of patches and of rollbacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from . import command
from .errors import WorkerStopping

# Seconds between two checks whether the worker is stopping.
TICK = 0.2


class CommandSlots:
    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.used = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait until a command may run, and count it until the block ends; raises WorkerStopping."""
        with self.condition:
            while self.used >= settings.STATECORE_COMMANDS_AT_ONCE:
                if command.runners.stopping:
                    raise WorkerStopping
                self.condition.wait(TICK)
            self.used += 1
        try:
            yield
        finally:
            with self.condition:
                self.used -= 1
                self.condition.notify()


slots = CommandSlots()
