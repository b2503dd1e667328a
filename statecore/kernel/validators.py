"""The shapes that lists and objects in JSON fields must have."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models


def list_of_words(value: Any) -> None:
    """Such as capabilities: no empty ones, none twice."""
    fits = isinstance(value, list) and all(isinstance(word, str) and 0 < len(word) <= 100 for word in value)
    if not fits or len(set(value)) != len(value):
        raise ValidationError("must be a list of different words of 1 to 100 characters.")


def list_of_exit_codes(value: Any) -> None:
    fits = isinstance(value, list) and value and all(type(code) is int and -255 <= code <= 255 for code in value)
    if not fits:
        raise ValidationError("must be a list of exit codes, -255 to 255, at least one.")


def affinity_object(value: Any) -> None:
    """Where a worker wants to work: `{"workstreams": [ids]}`; other keys are kept and mean nothing here."""
    if not isinstance(value, dict):
        raise ValidationError("must be an object.")
    list_of_words(value.get("workstreams", []))


def json_object(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValidationError("must be an object.")


def shape_complaint(field: models.Field[Any, Any], value: Any) -> str | None:
    """Also of what is empty, which Django passes over: an object is no list of words, even if nothing is in it."""
    try:
        for validate in field.validators:
            validate(value)
    except ValidationError as error:
        return " ".join(error.messages)
    return None
