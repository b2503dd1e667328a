"""What the agent says on its terminal: its own sentences, and the output of commands line by line."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

# A line that never ends is shown in pieces.
LONGEST_LINE = 65_536


class Terminal:
    """Shared by all slots: a line is never torn apart by another one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def say(self, sentence: str) -> None:
        self._write(sys.stderr, f"statecore agent: {sentence}\n")

    def show(self, prefix: str, line: bytes) -> None:
        self._write(sys.stdout, f"[{prefix}] {line.decode(errors='replace')}\n")

    def _write(self, stream: object, text: str) -> None:
        # Nobody may be reading any more; that is no reason to stop working.
        with self.lock, suppress(OSError, ValueError):
            stream.write(text)  # type: ignore[attr-defined]
            stream.flush()  # type: ignore[attr-defined]


class Lines:
    """The output of one command, shown as its lines come to an end."""

    def __init__(self, terminal: Terminal, prefix: str) -> None:
        self.terminal, self.prefix, self.begun = terminal, prefix, b""

    def add(self, data: bytes) -> None:
        *whole, self.begun = (self.begun + data).split(b"\n")
        for line in whole:
            self.terminal.show(self.prefix, line.removesuffix(b"\r"))
        if len(self.begun) > LONGEST_LINE:
            self.close()

    def close(self) -> None:
        if self.begun:
            self.terminal.show(self.prefix, self.begun)
        self.begun = b""
