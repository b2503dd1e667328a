"""The JSON schema of one field of a model, as it is told and as it is taken."""

from __future__ import annotations

from typing import Any

from django.core import validators
from django.db import models
from django.db.backends.base.operations import BaseDatabaseOperations

from statecore.kernel.params import INT_MAX, INT_MIN, Param
from statecore.kernel.plain import TEXT_LIMIT
from statecore.kernel.ulid import ID_PATTERN, UNREACHABLE
from statecore.kernel.validators import affinity_object, json_object, list_of_exit_codes, list_of_words

Schema = dict[str, Any]

ID: Schema = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$", "not": {"enum": list(UNREACHABLE)}}
IDS: Schema = {"type": "array", "items": ID}
MOMENT: Schema = {"type": "string", "format": "date-time"}
NO_NUL = "^[^\\u0000]*$"
ANY_OBJECT: Schema = {"type": "object"}
ANYTHING_BUT_NULL: Schema = {"type": ["object", "array", "string", "number", "boolean"]}
WORDS: Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": NO_NUL},
    "uniqueItems": True,
}
EXIT_CODES: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": -255, "maximum": 255},
    "minItems": 1,
}
AFFINITY: Schema = {"type": "object", "properties": {"workstreams": WORDS}}
SHAPES = {json_object: ANY_OBJECT, list_of_words: WORDS, list_of_exit_codes: EXIT_CODES, affinity_object: AFFINITY}


def text(longest: int = TEXT_LIMIT) -> Schema:
    return {"type": "string", "maxLength": longest, "pattern": NO_NUL}


def told(field: models.Field[Any, Any]) -> Schema:
    """What an answer holds: the type, without the limits of what is taken."""
    schema = _typed(field)
    plain = {name: value for name, value in schema.items() if name in ("type", "format", "enum", "items", "properties")}
    return nullable(plain) if field.null else plain


def taken(field: models.Field[Any, Any]) -> Schema:
    schema = dict(_typed(field))
    for limit in field.validators:
        if isinstance(limit, validators.MinValueValidator) and "type" in schema:
            schema["minimum"] = max(schema.get("minimum", limit.limit_value), limit.limit_value)
        if isinstance(limit, validators.MaxValueValidator) and "type" in schema:
            schema["maximum"] = min(schema.get("maximum", limit.limit_value), limit.limit_value)
    if schema.get("type") == "string" and not field.blank and "enum" not in schema:
        schema["minLength"] = 1
    return nullable(schema) if field.null else schema


def nullable(schema: Schema) -> Schema:
    if "type" not in schema:
        return schema
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    made = {**schema, "type": [*types, "null"]}
    return {**made, "enum": [*schema["enum"], None]} if "enum" in schema else made


def _typed(field: models.Field[Any, Any]) -> Schema:
    if field.choices:
        return {"type": "string", "enum": [value for value, _label in field.choices]}
    if isinstance(field, models.ForeignKey) or field.primary_key:
        return ID
    if isinstance(field, models.BooleanField):
        return {"type": "boolean"}
    if isinstance(field, models.IntegerField):
        low, high = BaseDatabaseOperations.integer_field_ranges[field.get_internal_type()]
        return {"type": "integer", "minimum": low, "maximum": high}
    if isinstance(field, models.FloatField):
        return {"type": "number"}
    if isinstance(field, models.DateTimeField):
        return MOMENT
    if isinstance(field, models.JSONField):
        return next((SHAPES[known] for known in SHAPES if known in field.validators), ANYTHING_BUT_NULL)
    return text(field.max_length or TEXT_LIMIT)


def of_param(param: Param) -> Schema:
    """A trigger's own field."""
    schema: Schema = {"type": param.json_type}
    if param.type is int:
        schema |= {"minimum": INT_MIN, "maximum": INT_MAX}
    if param.type is str:
        schema = text()
    return nullable(schema) if param.nullable else schema
