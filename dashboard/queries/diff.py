"""A unified diff as files with their lines, each with what it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_LINES = 5_000
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
ADDED, REMOVED, CONTEXT, HEADING, NOTE = "added", "removed", "context", "heading", "note"


@dataclass(slots=True)
class Line:
    kind: str
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(slots=True)
class File:
    name: str
    lines: list[Line] = field(default_factory=list)

    @property
    def has_hunks(self) -> bool:
        return any(line.kind == HEADING for line in self.lines)

    @property
    def added(self) -> int:
        return sum(line.kind == ADDED for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == REMOVED for line in self.lines)


@dataclass(slots=True)
class Diff:
    files: list[File]
    is_cut: bool


def parse(text: str) -> Diff:
    """Read the first MAX_LINES lines. A hunk has the numbers of lines that its heading states.

    Lines outside of hunks, such as modes, are notes of their file.
    """
    lines = text.split("\n")
    files = [File("")]
    old = new = old_end = new_end = 0
    for each in lines[:MAX_LINES]:
        current = files[-1]
        if old < old_end or new < new_end:
            line = _read_line(each, old, new)
            current.lines.append(line)
            old += line.old is not None
            new += line.new is not None
        elif hunk := HUNK.match(each):
            old, new = int(hunk[1]), int(hunk[3])
            old_end, new_end = old + int(hunk[2] or 1), new + int(hunk[4] or 1)
            current.lines.append(Line(HEADING, each))
        elif each.startswith("diff --git ") or (each.startswith("--- ") and current.has_hunks):
            files.append(File(each.rpartition(" b/")[2] if each.startswith("diff") else ""))
        elif each.startswith("+++ ") and each != "+++ /dev/null":
            current.name = each[4:].removeprefix("b/")
        elif each and not each.startswith(("--- ", "+++ ", "index ")):
            current.lines.append(Line(NOTE, each))
    return Diff([each for each in files if each.name or each.lines], len(lines) > MAX_LINES)


def _read_line(text: str, old: int, new: int) -> Line:
    if text.startswith("+"):
        return Line(ADDED, text[1:], new=new)
    if text.startswith("-"):
        return Line(REMOVED, text[1:], old=old)
    return Line(NOTE, text) if text.startswith("\\") else Line(CONTEXT, text[1:], old, new)
