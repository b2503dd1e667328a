"""What both databases can keep: text without NUL and lone surrogates, JSON made of such text, within a size."""

from __future__ import annotations

import json
from typing import Any, cast

import orjson

from .refusals import Invalid

TEXT_LIMIT = 1_000_000
JSON_LIMIT = 262_144


def text_complaint(text: object, limit: int = TEXT_LIMIT) -> str | None:
    """Why this text cannot be kept, as the rest of a sentence; None when it can."""
    if not isinstance(text, str):
        return "must be text."
    if len(text) > limit:
        return f"must be at most {limit} characters."
    if "\0" in text:
        return "must be without NUL."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "must be valid Unicode text."
    return None


def json_complaint(value: object, limit: int = JSON_LIMIT) -> str | None:
    try:
        # Both: orjson takes dates and NaN that JSON does not know, json takes keys that are not texts.
        json.dumps(value, allow_nan=False)
        text = orjson.dumps([[[[value]]]])  # as deep as an event has it, which has a limit
    except (TypeError, ValueError, RecursionError) as error:
        return f"must be plain JSON: {error}."
    if len(text) > limit:
        return f"must be at most {limit} bytes."
    # An escaped backslash may stand before the letters u0000; what is left without those is a real NUL.
    if rb"\u0000" in text.replace(rb"\\", b""):
        return "must be without NUL."
    return None


def object_complaint(value: object, limit: int = JSON_LIMIT) -> str | None:
    return json_complaint(value, limit) if isinstance(value, dict) else "must be an object."


def plain_payload(payload: object, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """The payload, if it is an object that both databases keep; else a refusal."""
    if complaint := object_complaint(payload, limit):
        raise Invalid({"payload": [complaint]})
    return cast("dict[str, Any]", payload)
