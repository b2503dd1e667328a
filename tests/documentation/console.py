"""The consoles of a page: what is typed, what is shown, and in which terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- terminal: (?P<terminal>\w+) -->\n)?^```console\n(?P<text>.*?)^```$", re.M | re.S)
PROMPT, MORE, ANYTHING = "$ ", ">", "…"


@dataclass
class Typed:
    """One command, and what the page shows below it."""

    command: str
    shown: list[str]


@dataclass(frozen=True)
class Block:
    terminal: str
    typed: list[Typed]


def blocks(page: Path) -> list[Block]:
    return [Block(found["terminal"] or "", list(_typed(found["text"]))) for found in BLOCK.finditer(page.read_text())]


def _typed(text: str) -> Iterator[Typed]:
    current: Typed | None = None
    for line in text.splitlines():
        if line.startswith(PROMPT):
            if current:
                yield current
            current = Typed(line.removeprefix(PROMPT), [])
        elif current is None:
            raise ValueError(f"a console begins with a command, not with {line!r}")
        elif line.startswith(MORE) and not current.shown:
            current.command += "\n" + line.removeprefix(MORE).removeprefix(" ")
        else:
            current.shown.append(line)
    if current:
        yield current


def pattern(shown: list[str]) -> re.Pattern[str]:
    """What a page shows, as an expression: `…` is anything within its line, a line of its own any lines."""
    parts = [r"(?:.*\n)*?" if line == ANYTHING else _line(line) for line in shown]
    return re.compile("".join(parts))


def _line(line: str) -> str:
    return ".*".join(map(re.escape, line.split(ANYTHING))) + r"[ ]*\n"
