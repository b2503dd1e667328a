"""What a script needs: the modules it imports, and those they import, so that a page asks for all of them at once."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath

from django.contrib.staticfiles import finders

IMPORTED = re.compile(r'^import [^"]*"(\.[^"]+)";', re.MULTILINE)


@cache
def needed_by(script: str) -> tuple[str, ...]:
    """The names of the static files, nearest first; a browser would learn of each only from the one before."""
    found = [script]
    for name in found:
        path = finders.find(name)
        text = Path(path).read_text(encoding="utf-8") if path else ""
        imported = (normpath(join(dirname(name), each)) for each in IMPORTED.findall(text))
        found += [each for each in imported if each not in found]
    return tuple(found[1:])
