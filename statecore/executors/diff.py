"""Parsing and validation of unified diffs before they are applied to a repository."""

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
RENAMED = re.compile(r"(?:rename|copy) (?:from|to) ([^\n]+)\n?")
CHANGES_METADATA = re.compile(r"(?:rename|copy) to |new mode |(?:new|deleted) file mode ")
BINARY = re.compile(r"^(?:GIT binary patch|Binary files? .* differ)", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
GIT_FILES = {".git", "git~1", ".gitmodules"}


class Check(StrEnum):
    FORMAT = "format"
    SCOPE = "scope"
    CONSTRAINTS = "constraints"


class Objection(Exception):
    """The reason a diff is rejected, and the check that failed."""

    def __init__(self, check: Check, sentence: str) -> None:
        # The sentence quotes the diff, which may contain line breaks and characters that databases reject.
        super().__init__("".join(letter if letter.isprintable() else "�" for letter in sentence))
        self.check = check


def read_paths(diff: str) -> list[str]:
    """Return every path the diff touches, old and new; raises Objection for a diff that may not be applied."""
    if len(diff) > SIZE_LIMIT:
        raise Objection(Check.CONSTRAINTS, f"the diff has {len(diff)} characters; {SIZE_LIMIT} are allowed")
    files = _parse(diff)
    if len(files) > FILES_LIMIT:
        raise Objection(Check.CONSTRAINTS, f"the diff touches {len(files)} files; {FILES_LIMIT} are allowed")
    touched = {path for file in files for path in _read_file_paths(file)}
    for path in sorted(touched):
        if objection := _find_objection(path):
            raise Objection(Check.CONSTRAINTS, objection)
    return sorted(touched)


def _parse(diff: str) -> Any:
    try:
        diff.encode()
        files = PatchSet(diff)
    except (UnidiffParseError, ValueError) as error:
        raise Objection(Check.FORMAT, f"not a unified diff: {str(error).strip()[:200]}") from None
    if "\0" in diff or BINARY.search(diff):
        raise Objection(Check.FORMAT, "the diff has binary content, which is not supported")
    if not files:
        raise Objection(Check.FORMAT, "the diff is empty: no file is changed")
    return files


def _read_file_paths(file: Any) -> Iterator[str]:
    header = [str(line) for line in file.patch_info or ()]
    if not len(file) and not any(map(CHANGES_METADATA.match, header)):
        raise Objection(Check.FORMAT, f"{file.path[:200]} is listed but not changed")
    for name, prefix in ((file.source_file, "a/"), (file.target_file, "b/")):
        if name == NO_FILE:
            continue
        if not name.startswith(prefix):
            raise Objection(Check.FORMAT, f"{name[:200]!r} must be an unquoted name that begins with {prefix}")
        yield name.removeprefix(prefix)
    for line in header:
        _check_mode(line)
        if renamed := RENAMED.fullmatch(line):
            yield renamed[1]


def _check_mode(line: str) -> None:
    found = MODE.fullmatch(line)
    mode = found and (found[1] or found[2])
    if mode and mode not in FILE_MODES:
        raise Objection(Check.CONSTRAINTS, f"mode {mode[:20]} is not the mode of a regular file")


def _find_objection(path: str) -> str | None:
    shown, parts = repr(path[:200]), path.split("/")
    if CONTROL.search(path) or path.startswith('"'):
        return f"{shown} contains a quote, a backslash or a control character"
    if path.startswith("/"):
        return f"{shown} is an absolute path"
    if any(part in ("", ".", "..") for part in parts):
        return f"{shown} contains an empty, . or .. component"
    if any(part.casefold().rstrip(". ") in GIT_FILES for part in parts):
        return f"Attempted to modify {path[:200]}, a file of git"
    return None
