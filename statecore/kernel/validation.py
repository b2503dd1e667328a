"""Validation of values that callers send: what both databases can store, and the structure of JSON fields."""

from __future__ import annotations

import json
from typing import Any, cast

import orjson
from django.core.exceptions import ValidationError
from django.db import models

from .ids import is_valid_id
from .refusals import Invalid

TEXT_LIMIT = 1_000_000
JSON_LIMIT = 262_144


def text_error(text: object, limit: int = TEXT_LIMIT) -> str | None:
    """Returns the end of a sentence that begins with the field's name; None if both databases can store the text."""
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


def json_error(value: object, limit: int = JSON_LIMIT) -> str | None:
    try:
        # Both are needed: orjson accepts dates and NaN, and json accepts keys that are not texts.
        json.dumps(value, allow_nan=False)
        text = orjson.dumps([[[[value]]]])  # as deep as in an event: orjson limits the depth
    except (TypeError, ValueError, RecursionError) as error:
        return f"must be plain JSON: {error}."
    if len(text) > limit:
        return f"must be at most {limit} bytes."
    # The letters u0000 may follow an escaped backslash; without those pairs, a match is a real NUL.
    if rb"\u0000" in text.replace(rb"\\", b""):
        return "must be without NUL."
    return None


def object_error(value: object, limit: int = JSON_LIMIT) -> str | None:
    return json_error(value, limit) if isinstance(value, dict) else "must be an object."


def validate_payload(payload: object, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """Returns the payload; raises Invalid unless it is an object that both databases can store."""
    if error := object_error(payload, limit):
        raise Invalid({"payload": [error]})
    return cast("dict[str, Any]", payload)


def validate_word_list(value: Any) -> None:
    """Validates a list such as capabilities: no empty words and no duplicates."""
    fits = isinstance(value, list) and all(isinstance(word, str) and 0 < len(word) <= 100 for word in value)
    if not fits or len(set(value)) != len(value):
        raise ValidationError("must be a list of different words of 1 to 100 characters.")


def validate_exit_codes(value: Any) -> None:
    fits = isinstance(value, list) and value and all(type(code) is int and -255 <= code <= 255 for code in value)
    if not fits:
        raise ValidationError("must be a list of exit codes, -255 to 255, at least one.")


def validate_affinity(value: Any) -> None:
    """Validates `{"workstreams": [ids]}`, the work that a worker prefers; other keys are stored and ignored."""
    validate_json_object(value)
    validate_word_list(value.get("workstreams", []))


def validate_tool(value: str) -> None:
    """Validates the id of a tool; empty if none is used."""
    if value and not is_valid_id(value):
        raise ValidationError("must be 1 to 64 of A-Z a-z 0-9 . _ : -.")


def validate_json_object(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValidationError("must be an object.")


def describe_errors(error: ValidationError) -> dict[str, list[str]]:
    """Returns the messages by field; one about a missing related row names the row."""
    return {field: [_describe(each) for each in errors] for field, errors in error.error_dict.items()}


def _describe(error: ValidationError) -> str:
    params = error.params if isinstance(error.params, dict) else {}
    if error.code == "invalid" and {"model", "pk"} <= params.keys():
        return f"there is no {params['model']} {params['value']!r}: create it first, or name another."
    return " ".join(error.messages)


def field_error(field: models.Field[Any, Any], value: Any) -> str | None:
    """Runs the field's validators. Django skips them for empty values, and `{}` is not a valid list of words."""
    try:
        for validate in field.validators:
            validate(value)
    except ValidationError as error:
        return " ".join(error.messages)
    return None
