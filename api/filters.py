"""Filters of a list, read off the fields of a model: the same words in a query string and in a bulk call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import models
from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime

from statecore.kernel.refusals import Invalid
from statecore.kernel.ulid import ID_PATTERN, UNREACHABLE, is_valid_id

MOST_VALUES = 100
TEXT_LENGTH = 200
NUMBER_LIMIT = 2**31
# As a pattern, for a schema can say of a text only what it looks like.
IN_32_BITS = (
    "-2147483648|-?([01]?[0-9]{1,9}|20[0-9]{8}|21[0-3][0-9]{7}|214[0-6][0-9]{6}|2147[0-3][0-9]{5}|21474[0-7][0-9]{4}"
    "|214748[0-2][0-9]{3}|2147483[0-5][0-9]{2}|21474836[0-3][0-9]|214748364[0-7])"
)


class Filter(NamedTuple):
    """`lookup` is Django's; `read` turns a text into a value or raises ValueError with the rest of a sentence."""

    lookup: str
    read: Callable[[str], Any]
    schema: Mapping[str, Any]
    repeatable: bool


@cache
def filters(model: type[models.Model]) -> dict[str, Filter]:
    made: dict[str, Filter] = {}
    for field in model._meta.concrete_fields:
        if isinstance(field, models.DateTimeField):
            stem = field.name.removesuffix("_at")
            made[f"{stem}_after"] = Filter(f"{field.name}__gt", moment, MOMENT, repeatable=False)
            made[f"{stem}_before"] = Filter(f"{field.name}__lt", moment, MOMENT, repeatable=False)
        elif field.name == "id" or isinstance(field, models.ForeignKey):
            made[field.name] = Filter(f"{field.attname}__in", _id, ID, repeatable=True)
        elif field.choices:
            made[field.name] = _choice(field)
        elif isinstance(field, models.BooleanField):
            made[field.name] = Filter(field.name, _flag, {"type": "boolean"}, repeatable=False)
        elif isinstance(field, models.IntegerField):
            made[field.name] = Filter(f"{field.name}__in", _number, NUMBER, repeatable=True)
        elif isinstance(field, models.CharField) and field.name != "chain_head":
            made[field.name] = Filter(f"{field.name}__in", _text, TEXT, repeatable=True)
    return made


# In a body a number or a flag may be written as one, or as in a query string.
AS_TEXT: dict[Any, dict[str, Any]] = {
    "integer": {"type": "string", "pattern": f"^({IN_32_BITS})$"},
    "boolean": {"type": "string", "pattern": "^(true|false)$"},
}
_KINDS = {"string": str, "integer": int, "boolean": bool}
_NAMES = {"string": "a text", "integer": "a whole number", "boolean": "true or false"}


def words(model: type[models.Model], given: Mapping[str, Any]) -> dict[str, list[str]]:
    """A filter of a body, as it would stand in a query string; what the words mean is for `narrowed` to say."""
    known, errors, found = filters(model), {}, {}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        kind = known[name].schema["type"] if name in known else "string"
        if name in known and (not values or not all(type(each) in (str, _KINDS[kind]) for each in values)):
            errors[name] = [f"must be {_NAMES[kind]}, or a list of these."]
        found[name] = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
    if errors:
        raise Invalid(errors)
    return found


def narrowed(rows: QuerySet[Any], wanted: Mapping[str, list[str]]) -> QuerySet[Any]:
    """Only the rows that fit every filter; with several values of one, those that fit any of them."""
    model: Any = rows.model
    known, errors = filters(model), {}
    for name, values in wanted.items():
        try:
            rows = rows.filter(**_condition(name, known.get(name), values))
        except ValueError as error:
            errors[name] = [str(error)]
    if errors:
        raise Invalid(errors)
    return rows


def _condition(name: str, found: Filter | None, values: list[str]) -> dict[str, Any]:
    if found is None:
        raise ValueError("is not a filter of this list.")
    if len(values) > (MOST_VALUES if found.repeatable else 1):
        raise ValueError(f"may be given {'100 times' if found.repeatable else 'once'} at most.")
    given = [found.read(value) for value in values]
    return {found.lookup: given if found.lookup.endswith("__in") else given[0]}


MOMENT = {"type": "string", "format": "date-time"}
ID = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$", "not": {"enum": list(UNREACHABLE)}}
NUMBER = {"type": "integer", "minimum": -NUMBER_LIMIT, "maximum": NUMBER_LIMIT - 1}
TEXT = {"type": "string", "maxLength": TEXT_LENGTH, "pattern": "^[^\\u0000]*$"}


def moment(text: str) -> datetime:
    try:
        # A plus in a query string reads as a space.
        found = parse_datetime(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        found = None
    if found is None:
        raise ValueError("must be a time like 2026-01-31T12:00:00Z.")
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise ValueError("is not a time that can be kept.") from None


def _id(text: str) -> str:
    if not is_valid_id(text):
        raise ValueError("must be an id: 1 to 64 of A-Z a-z 0-9 . _ : -")
    return text


def _choice(field: models.Field[Any, Any]) -> Filter:
    values = [value for value, _label in field.choices or ()]

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}.")
        return text

    return Filter(f"{field.name}__in", read, {"type": "string", "enum": values}, repeatable=True)


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false.")
    return text == "true"


def _number(text: str) -> int:
    if not re.fullmatch(IN_32_BITS, text):
        raise ValueError("must be a whole number that fits into 32 bits.")
    return int(text)


def _text(text: str) -> str:
    if len(text) > TEXT_LENGTH or "\0" in text:
        raise ValueError(f"must be at most {TEXT_LENGTH} characters, without NUL.")
    return text
