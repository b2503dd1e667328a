"""Bounded output of a command: its beginning and its end."""

from __future__ import annotations

LIMIT = 65_536


class Output:
    def __init__(self, limit: int = LIMIT) -> None:
        self.half = limit // 2
        self.head, self.tail, self.total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.half - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        del self.tail[: -self.half]

    def text(self) -> str:
        """Return valid text without NUL characters, which PostgreSQL rejects."""
        omitted = self.total - len(self.head) - len(self.tail)
        if not omitted:
            return _decode(self.head + self.tail)
        return f"{_decode(self.head)}\n… {omitted} bytes omitted …\n{_decode(self.tail)}"


def _decode(data: bytes | bytearray) -> str:
    return data.decode(errors="replace").replace("\0", "")


def keep_end(text: str, limit: int) -> str:
    """Truncate a text at its beginning, because test reports summarise the failures at the end."""
    return text if len(text) <= limit else f"…{text[-limit:]}"
