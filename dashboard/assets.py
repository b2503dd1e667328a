"""Static files of the pages: which modules a script imports, and which build of the pages is served."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath

from django.contrib.staticfiles import finders

import statecore

IMPORT = re.compile(r'^import [^"]*"(\.[^"]+)";', re.MULTILINE)


@cache
def find_imports(script: str) -> tuple[str, ...]:
    """Every module a script imports, directly or not, nearest first.

    A page preloads them all at once; a browser would discover each only after loading the one before.
    """
    found = [script]
    for name in found:
        path = finders.find(name)
        text = Path(path).read_text(encoding="utf-8") if path else ""
        imported = (normpath(join(dirname(name), each)) for each in IMPORT.findall(text))
        found += [each for each in imported if each not in found]
    return tuple(found[1:])


@cache
def get_build_id() -> str:
    """A hash of the console's templates and static files; a wall reloads itself when it changes."""
    digest = hashlib.sha256()
    for folder in ("static", "templates"):
        for path in sorted(Path(statecore.__file__).with_name(folder).joinpath("dashboard").rglob("*.*")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
