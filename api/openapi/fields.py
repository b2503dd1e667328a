"""JSON schemas of model fields, in responses and in request bodies, and of trigger fields.

Functions are named after the schema they return.
"""

from __future__ import annotations

from typing import Any

from django.core import validators
from django.db import models
from django.db.backends.base.operations import BaseDatabaseOperations

from statecore.kernel import repositories
from statecore.kernel.ids import DOT_SEGMENTS, ID_PATTERN
from statecore.kernel.transition import INT_MAX, INT_MIN, Param
from statecore.kernel.validation import (
    TEXT_LIMIT,
    validate_affinity,
    validate_exit_codes,
    validate_json_object,
    validate_word_list,
)
from statecore.records.phase import validate_repositories

Schema = dict[str, Any]

ID: Schema = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$", "not": {"enum": list(DOT_SEGMENTS)}}
IDS: Schema = {"type": "array", "items": ID}
TIME: Schema = {"type": "string", "format": "date-time"}
NO_NUL = "^[^\\u0000]*$"
ANY_OBJECT: Schema = {"type": "object"}
ANY_VALUE: Schema = {"description": "Any JSON value."}
ANYTHING_BUT_NULL: Schema = {"type": ["object", "array", "string", "number", "boolean"], "items": {}}
WORDS: Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": NO_NUL},
    "uniqueItems": True,
}
REPOSITORIES: Schema = {
    "type": "array",
    "items": {"type": "string", "pattern": f"^{repositories.NAME.pattern}$"},
    "uniqueItems": True,
}
EXIT_CODES: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": -255, "maximum": 255},
    "minItems": 1,
}
AFFINITY: Schema = {"type": "object", "properties": {"workstreams": WORDS}}
SHAPES = {
    validate_json_object: ANY_OBJECT,
    validate_word_list: WORDS,
    validate_repositories: REPOSITORIES,
    validate_exit_codes: EXIT_CODES,
    validate_affinity: AFFINITY,
}
STRINGS: Schema = {"type": "array", "items": {"type": "string"}}
PROGRESS: Schema = {
    "type": "object",
    "properties": {"fraction": {"type": ["number", "null"]}, "detail": {"type": ["string", "null"]}},
}
WAIVER: Schema = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("by", "reason", "category")},
        "at": TIME,
        "expires_at": {**TIME, "type": ["string", "null"]},
    },
    "required": ["by", "reason", "category", "at", "expires_at"],
}
# A command has `cancel` with `attempt`, or `shutdown`.
COMMAND: Schema = {
    "type": "object",
    "properties": {
        "cancel": {"type": "string"},
        "attempt": {"type": "integer"},
        "shutdown": {"type": "boolean"},
    },
}
# The JSON columns of machines that callers do not set, or set to any value.
STORED: dict[str, Schema] = {
    "allocated_workers": STRINGS,
    "blocked_by": STRINGS,
    "commands": {"type": "array", "items": COMMAND},
    "compensation_plan": ANY_OBJECT,
    "payload": ANY_VALUE,
    "progress": PROGRESS,
    "quarantine_metadata": ANY_OBJECT,
    "result": ANY_VALUE,
    "waiver": WAIVER,
}


def text(max_length: int = TEXT_LIMIT) -> Schema:
    return {"type": "string", "maxLength": max_length, "pattern": NO_NUL}


RESPONSE_KEYWORDS = ("type", "format", "enum", "items", "properties", "required", "description")


def response_field(field: models.Field[Any, Any]) -> Schema:
    """Return the type without the limits that apply to requests."""
    schema = STORED.get(field.name, ANY_VALUE) if _has_no_shape(field) else _base_schema(field)
    plain = {name: value for name, value in schema.items() if name in RESPONSE_KEYWORDS}
    return nullable(plain) if field.null else plain


def request_field(field: models.Field[Any, Any]) -> Schema:
    schema = dict(_base_schema(field))
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
    widened = {**schema, "type": [*types, "null"]}
    return {**widened, "enum": [*schema["enum"], None]} if "enum" in schema else widened


def _has_no_shape(field: models.Field[Any, Any]) -> bool:
    return isinstance(field, models.JSONField) and not any(known in field.validators for known in SHAPES)


def _base_schema(field: models.Field[Any, Any]) -> Schema:
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
        return TIME
    if isinstance(field, models.JSONField):
        return next((SHAPES[known] for known in SHAPES if known in field.validators), ANYTHING_BUT_NULL)
    return text(field.max_length or TEXT_LIMIT)


def param_schema(param: Param) -> Schema:
    if param.type is Any:
        return ANY_VALUE
    schema: Schema = {"type": param.json_type, **({"items": {}} if param.json_type == "array" else {})}
    if param.type is int:
        schema |= {"minimum": INT_MIN, "maximum": INT_MAX}
    if param.type is str:
        schema = text()
    return nullable(schema) if param.nullable else schema
