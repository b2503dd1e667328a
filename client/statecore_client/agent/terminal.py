"""What the agent prints: its messages, and the output of the commands line by line."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

# A longer line is printed in parts.
LONGEST_LINE = 65_536


class Terminal:
    """Prints whole lines. All slots share it, so that their output is not mixed within a line."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def print_message(self, message: str) -> None:
        self._write(sys.stderr, f"statecore agent: {message}\n")

    def print_output(self, prefix: str, line: bytes) -> None:
        self._write(sys.stdout, f"[{prefix}] {line.decode(errors='replace')}\n")

    def _write(self, stream: object, text: str) -> None:
        # A closed terminal must not stop the agent.
        with self.lock, suppress(OSError, ValueError):
            stream.write(text)  # type: ignore[attr-defined]
            stream.flush()  # type: ignore[attr-defined]


class LinePrinter:
    """Prints the output of one command, each line as soon as it is complete."""

    def __init__(self, terminal: Terminal, prefix: str) -> None:
        self.terminal, self.prefix, self.partial = terminal, prefix, b""

    def add(self, data: bytes) -> None:
        *complete, self.partial = (self.partial + data).split(b"\n")
        for line in complete:
            self.terminal.print_output(self.prefix, line.removesuffix(b"\r"))
        if len(self.partial) > LONGEST_LINE:
            self.close()

    def close(self) -> None:
        if self.partial:
            self.terminal.print_output(self.prefix, self.partial)
        self.partial = b""
