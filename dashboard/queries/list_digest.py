"""A digest of the rows of a list, by which an open page notices that its list has changed.

The number of rows is not enough: one may have replaced another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest

from statecore.dashboard import rendering

PART = "digest"


def compute(rows: Iterable[tuple[Any, ...]]) -> str:
    return hashlib.sha256(json.dumps([*rows], default=str).encode()).hexdigest()[:16]


def is_requested(request: HttpRequest) -> bool:
    """Whether an open page requests only the digest of its list."""
    return rendering.is_fragment(request) and request.GET.get("part") == PART
