"""By which name somebody tried to log in, as the record of failed attempts can keep it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

LONGEST = 150  # as long as the name of a user may be: no longer one is anybody's


def name_tried(request: HttpRequest | None, credentials: Mapping[str, Any] | None = None) -> str | None:
    given = credentials or (request.POST if request is not None else {})
    name = given.get("username")
    return None if name is None else str(name).replace("\0", "")[:LONGEST]
