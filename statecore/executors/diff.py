"""Reading a unified diff before it comes near a repository: what it touches, or why it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

SIZE_LIMIT = 1_000_000
FILES_LIMIT = 500
NO_FILE = "/dev/null"
FILE_MODES = {"100644", "100755"}  # no symbolic link, no submodule
MODE = re.compile(r"(?:old|new|new file|deleted file) mode (\d+)\s*|index [0-9a-f]+\.\.[0-9a-f]+ (\d+)\s*")
MOVED = re.compile(r"(?:rename|copy) (?:from|to) ([^\n]+)\n?")
SAYS_SOMETHING = re.compile(r"(?:rename|copy) to |new mode |(?:new|deleted) file mode ")
BINARY = re.compile(r"^(?:GIT binary patch|Binary files? .* differ)", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
GITS_OWN = {".git", "git~1", ".gitmodules"}


class Check(StrEnum):
    FORMAT = "format"
    SCOPE = "scope"
    CONSTRAINTS = "constraints"


class Objection(Exception):
    """Why a diff is refused, and the check that it did not pass."""

    def __init__(self, check: Check, sentence: str) -> None:
        # It quotes what somebody sent: in one line, and such that a database keeps it.
        super().__init__("".join(letter if letter.isprintable() else "�" for letter in sentence))
        self.check = check


def paths(diff: str) -> list[str]:
    """Every path a diff touches, before or after; an Objection when it is no diff we would apply."""
    if len(diff) > SIZE_LIMIT:
        raise Objection(Check.CONSTRAINTS, f"it is {len(diff)} characters long, and {SIZE_LIMIT} are allowed")
    files = _parsed(diff)
    if len(files) > FILES_LIMIT:
        raise Objection(Check.CONSTRAINTS, f"it touches {len(files)} files, and {FILES_LIMIT} are allowed")
    touched = {path for file in files for path in _paths_of(file)}
    for path in sorted(touched):
        if objection := _objection_to(path):
            raise Objection(Check.CONSTRAINTS, objection)
    return sorted(touched)


def _parsed(diff: str) -> Any:
    try:
        diff.encode()
        files = PatchSet(diff)
    except (UnidiffParseError, ValueError) as error:
        raise Objection(Check.FORMAT, f"it is not a unified diff: {str(error).strip()[:200]}") from None
    if "\0" in diff or BINARY.search(diff):
        raise Objection(Check.FORMAT, "it has binary contents, which are not taken")
    if not files:
        raise Objection(Check.FORMAT, "it is empty: no file is changed")
    return files


def _paths_of(file: Any) -> Iterator[str]:
    header = [str(line) for line in file.patch_info or ()]
    if not len(file) and not any(map(SAYS_SOMETHING.match, header)):
        raise Objection(Check.FORMAT, f"{file.path[:200]} is named and not changed")
    for name, prefix in ((file.source_file, "a/"), (file.target_file, "b/")):
        if name == NO_FILE:
            continue
        if not name.startswith(prefix):
            raise Objection(Check.FORMAT, f"{name[:200]!r} must be a plain name that begins with {prefix}")
        yield name.removeprefix(prefix)
    for line in header:
        _check_mode(line)
        if moved := MOVED.fullmatch(line):
            yield moved[1]


def _check_mode(line: str) -> None:
    found = MODE.fullmatch(line)
    mode = found and (found[1] or found[2])
    if mode and mode not in FILE_MODES:
        raise Objection(Check.CONSTRAINTS, f"mode {mode[:20]} is not that of a plain file")


def _objection_to(path: str) -> str | None:
    shown, parts = repr(path[:200]), path.split("/")
    if CONTROL.search(path) or path.startswith('"'):
        return f"{shown} has a quote, a backslash or a control character in it"
    if path.startswith("/"):
        return f"{shown} is an absolute path"
    if any(part in ("", ".", "..") for part in parts):
        return f"{shown} leads out of its folder"
    if any(part.casefold().rstrip(". ") in GITS_OWN for part in parts):
        return f"Attempted to modify {path[:200]}, which is git's own"
    return None
