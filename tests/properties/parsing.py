"""Generated input for parsers, and whether they refuse it."""

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


def finite(value: Any) -> Any:
    """Replaces the numbers that our JSON never contains."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return max(-(2**63), min(value, 2**63 - 1)) if type(value) is int else value


def request_with_query(**words: str) -> Any:
    """Returns a request with this query string."""
    return RequestFactory().get("/api/v1/tasks/", words)


def refusal_of(kind: type[Any], parser: Callable[..., Any], *given_to_it: Any) -> Any:
    """Returns the refusal, or None if the input was accepted; any other exception fails the test."""
    try:
        parser(*given_to_it)
    except kind as refusal:
        return refusal
    return None
