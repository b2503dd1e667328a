"""Filters of lists and bulk calls, derived from the fields of a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import models
from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime

from statecore.kernel.ids import DOT_SEGMENTS, ID_PATTERN, is_valid_id
from statecore.kernel.refusals import Invalid

MAX_VALUES = 100
MAX_TEXT_LENGTH = 200
NUMBER_LIMIT = 2**31
# A pattern, because JSON schema cannot limit a number that is written as text.
INT32_PATTERN = (
    "-2147483648|-?([01]?[0-9]{1,9}|20[0-9]{8}|21[0-3][0-9]{7}|214[0-6][0-9]{6}|2147[0-3][0-9]{5}|21474[0-7][0-9]{4}"
    "|214748[0-2][0-9]{3}|2147483[0-5][0-9]{2}|21474836[0-3][0-9]|214748364[0-7])"
)


class Filter(NamedTuple):
    """`parse` converts a text for Django's `lookup`, or raises ValueError with a message about the field."""

    lookup: str
    parse: Callable[[str], Any]
    schema: Mapping[str, Any]
    repeatable: bool


@cache
def derive_filters(model: type[models.Model]) -> dict[str, Filter]:
    """Return the filters of a list by name: one for each field, and two for a time, `created_after` and `_before`."""
    found: dict[str, Filter] = {}
    for field in model._meta.concrete_fields:
        if isinstance(field, models.DateTimeField):
            stem = field.name.removesuffix("_at")
            found[f"{stem}_after"] = Filter(f"{field.name}__gt", parse_time, TIME, repeatable=False)
            found[f"{stem}_before"] = Filter(f"{field.name}__lt", parse_time, TIME, repeatable=False)
        elif field.name == "id" or isinstance(field, models.ForeignKey):
            found[field.name] = Filter(f"{field.attname}__in", _parse_id, ID, repeatable=True)
        elif field.choices:
            found[field.name] = _build_choice_filter(field)
        elif isinstance(field, models.BooleanField):
            found[field.name] = Filter(field.name, _parse_flag, {"type": "boolean"}, repeatable=False)
        elif isinstance(field, models.IntegerField):
            found[field.name] = Filter(f"{field.name}__in", _parse_number, NUMBER, repeatable=True)
        elif isinstance(field, models.CharField) and field.name != "chain_head":
            found[field.name] = Filter(f"{field.name}__in", _parse_text, TEXT, repeatable=True)
    return found


# In a body, numbers and flags may also be written as text, as in a query string.
AS_TEXT: dict[Any, dict[str, Any]] = {
    "integer": {"type": "string", "pattern": f"^({INT32_PATTERN})$"},
    "boolean": {"type": "string", "pattern": "^(true|false)$"},
}
_PYTHON_TYPES = {"string": str, "integer": int, "boolean": bool}
_TYPE_NAMES = {"string": "a text", "integer": "a whole number", "boolean": "true or false"}


def normalize_filters(model: type[models.Model], given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Convert the filters of a JSON body to lists of texts, as a query string has them; raises Invalid."""
    known, errors, found = derive_filters(model), {}, {}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        kind = known[name].schema["type"] if name in known else "string"
        if name in known and (not values or not all(type(each) in (str, _PYTHON_TYPES[kind]) for each in values)):
            errors[name] = [f"must be {_TYPE_NAMES[kind]}, or a list of these."]
        found[name] = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
    if errors:
        raise Invalid(errors)
    return found


def apply_filters(rows: QuerySet[Any], given: Mapping[str, list[str]]) -> QuerySet[Any]:
    """Return the rows that match every filter; several values of one filter are alternatives. Raises Invalid."""
    model: Any = rows.model
    known, errors = derive_filters(model), {}
    for name, values in given.items():
        try:
            rows = rows.filter(**_build_condition(known.get(name), values))
        except ValueError as error:
            errors[name] = [str(error)]
    if errors:
        raise Invalid(errors)
    return rows


def _build_condition(known: Filter | None, values: list[str]) -> dict[str, Any]:
    if known is None:
        raise ValueError("is not a filter of this list.")
    if len(values) > (MAX_VALUES if known.repeatable else 1):
        raise ValueError(f"may be given at most {'100 times' if known.repeatable else 'once'}.")
    parsed = [known.parse(value) for value in values]
    return {known.lookup: parsed if known.lookup.endswith("__in") else parsed[0]}


TIME = {"type": "string", "format": "date-time"}
ID = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$", "not": {"enum": list(DOT_SEGMENTS)}}
NUMBER = {"type": "integer", "minimum": -NUMBER_LIMIT, "maximum": NUMBER_LIMIT - 1}
TEXT = {"type": "string", "maxLength": MAX_TEXT_LENGTH, "pattern": "^[^\\u0000]*$"}


def parse_time(text: str) -> datetime:
    try:
        # A plus sign in a query string is decoded as a space.
        found = parse_datetime(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        found = None
    if found is None:
        raise ValueError("must be a time like 2026-01-31T12:00:00Z.")
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range.") from None


def _parse_id(text: str) -> str:
    if not is_valid_id(text):
        raise ValueError("must be an id: 1 to 64 characters of A-Z a-z 0-9 . _ : -")
    return text


def _build_choice_filter(field: models.Field[Any, Any]) -> Filter:
    values = [value for value, _label in field.choices or ()]

    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}.")
        return text

    return Filter(f"{field.name}__in", parse, {"type": "string", "enum": values}, repeatable=True)


def _parse_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false.")
    return text == "true"


def _parse_number(text: str) -> int:
    if not re.fullmatch(INT32_PATTERN, text):
        raise ValueError("must be a whole number that fits into 32 bits.")
    return int(text)


def _parse_text(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH or "\0" in text:
        raise ValueError(f"must be at most {MAX_TEXT_LENGTH} characters, without NUL.")
    return text
