"""Parses the fenced blocks of a page into commands with their output, settings and terminals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

BLOCK = re.compile(
    r"(?:^<!-- terminal: (?P<terminal>\w+) -->\n)?^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.M | re.S
)
CONSOLE, PLAIN = "console", ""
PROMPT, MORE, ANYTHING = "$ ", ">", "…"
SETTING = re.compile(r'[A-Z_]+=(?:"[^"]*"|[^\s"]+)')


@dataclass
class Typed:
    """One command, and the output the page shows for it."""

    command: str
    shown: list[str]


@dataclass(frozen=True)
class Block:
    language: str
    terminal: str
    text: str

    @property
    def settings(self) -> dict[str, str]:
        """Returns the variables if every line sets one; otherwise an empty dict."""
        lines = self.text.splitlines()
        if self.language != PLAIN or not all(map(SETTING.fullmatch, lines)):
            return {}
        pairs = (shlex.split(line)[0].partition("=") for line in lines)
        return {name: value for name, _, value in pairs}

    @property
    def typed(self) -> list[Typed]:
        if self.language == CONSOLE:
            return list(_typed(self.text))
        return [Typed(command, []) for command in self.text.replace("\\\n", "").splitlines()]


def blocks(page: Path) -> list[Block]:
    found = BLOCK.finditer(page.read_text())
    return [Block(each["language"], each["terminal"] or "", dedent(each["text"])) for each in found]


def _typed(text: str) -> Iterator[Typed]:
    current: Typed | None = None
    for line in text.splitlines():
        if line.startswith(PROMPT):
            if current:
                yield current
            current = Typed(line.removeprefix(PROMPT), [])
        elif current is None:
            raise ValueError(f"a console block must begin with a command, not with {line!r}")
        elif line.startswith(MORE) and not current.shown:
            current.command += "\n" + line.removeprefix(MORE).removeprefix(" ")
        else:
            current.shown.append(line)
    if current:
        yield current


def pattern(shown: list[str]) -> re.Pattern[str]:
    """Returns a regular expression for the shown output: `…` matches within a line, or any lines if alone."""
    parts = [r"(?:.*\n)*?" if line == ANYTHING else _line(line) for line in shown]
    return re.compile("".join(parts))


def _line(line: str) -> str:
    return ".*".join(map(re.escape, line.split(ANYTHING))) + r"[ ]*\n"
