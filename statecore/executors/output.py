"""What a command said, as much of it as is kept: the beginning and the end, and how much lay between."""

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
        """As PostgreSQL takes it: valid, and without NUL."""
        left_out = self.total - len(self.head) - len(self.tail)
        gap = f"\n… {left_out} bytes left out …\n" if left_out else ""
        return f"{_text(self.head)}{gap}{_text(self.tail)}" if gap else _text(self.head + self.tail)


def _text(data: bytes | bytearray) -> str:
    return data.decode(errors="replace").replace("\0", "")


def clipped(text: str, limit: int) -> str:
    """The end of a text, where a report says what went wrong."""
    return text if len(text) <= limit else f"…{text[-limit:]}"
