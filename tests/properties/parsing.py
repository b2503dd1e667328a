"""What parsers are given, how often, and whether they refuse it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.test import RequestFactory
from hypothesis import settings
from hypothesis import strategies as st

from tests.properties.support import SETTINGS

few, many = settings(SETTINGS, max_examples=40), settings(SETTINGS, max_examples=100)
TEXT = st.text(max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """Without the numbers that no JSON of ours writes."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return max(-(2**63), min(value, 2**63 - 1)) if type(value) is int else value


def asking(**words: str) -> Any:
    """A real request, with these words behind the question mark."""
    return RequestFactory().get("/api/v1/tasks/", words)


def refusal_of(kind: type[Any], parser: Callable[..., Any], *given_to_it: Any) -> Any:
    """None where it was understood; any other exception than this kind is a failure."""
    try:
        parser(*given_to_it)
    except kind as refusal:
        return refusal
    return None
