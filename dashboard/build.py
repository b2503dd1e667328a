"""Which build of the pages this is: a wall that finds another one loads itself anew."""

from __future__ import annotations

import hashlib
from functools import cache

from django.conf import settings


@cache
def build() -> str:
    digest = hashlib.sha256()
    for folder in ("static/dashboard", "templates/dashboard"):
        for path in sorted((settings.ROOT / folder).rglob("*.*")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
