"""Examples of request bodies, derived from their schemas: the required fields, with a value that the server accepts."""

from __future__ import annotations

import re
from typing import Any

from ..responses import JSON
from .fields import Schema

# Texts whose content a schema cannot express, by the name of the field.
TEXTS = {
    "checkpoint": "statecore\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpGWFG3hSuFU=\n\n— statecore AAAAAA==\n",
    "cosignature": "— witness AAAAAA==",
    "cron": "0 3 * * *",
    "detail": "3 of 6 files",
    "diff": "--- a/one.txt\n+++ b/one.txt\n@@ -1 +1 @@\n-one\n+two\n",
    "digest": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "reason": "The test host was replaced.",
    "scope": "everything",
    "timezone": "Europe/Berlin",
    "type": "message",
    "url": "https://ci.example.com/statecore",
}
FORMATS = {"date-time": "2030-01-01T00:00:00Z", "uri": TEXTS["url"]}
TEXT = "example"


def add_examples(paths: dict[str, Any], schemas: dict[str, Schema]) -> None:
    """Add an example to each JSON body; a body with one shape for each trigger gets one example for each."""
    for methods in paths.values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {}).get(JSON)
            if content:
                content |= describe_examples(content["schema"], schemas)


def describe_examples(schema: Schema, schemas: dict[str, Schema]) -> dict[str, Any]:
    shapes = [resolve(each, schemas) for each in resolve(schema, schemas).get("anyOf", ())]
    by_trigger = {each["properties"]["trigger"]["const"]: each for each in shapes if "trigger" in _properties(each)}
    if not by_trigger:
        return {"example": build_example(schema, schemas)}
    return {"examples": {trigger: {"value": build_example(shape, schemas)} for trigger, shape in by_trigger.items()}}


def build_example(schema: Schema, schemas: dict[str, Schema], name: str = "") -> Any:
    schema = resolve(schema, schemas)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return build_example(schema["anyOf"][0], schemas, name)
    kind = schema.get("type", "object")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            return _build_object(schema, schemas)
        case "array":
            return [build_example(schema["items"], schemas, name)] if schema.get("minItems") else []
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 0)
    return _build_text(schema, name)


def _build_object(schema: Schema, schemas: dict[str, Schema]) -> dict[str, Any]:
    """Return the required fields; of an object without any that must not be empty, the first field."""
    properties = _properties(schema)
    needed = schema.get("required", [])
    if not needed and schema.get("minProperties"):
        needed = [next(iter(properties))]
    return {name: build_example(properties[name], schemas, name) for name in needed if name in properties}


def _build_text(schema: Schema, name: str) -> str:
    found: str = TEXTS.get(name) or FORMATS.get(schema.get("format", "")) or f"{name or TEXT}-1"
    if "pattern" in schema and not re.search(schema["pattern"], found):
        return TEXT
    return found


def resolve(schema: Schema, schemas: dict[str, Schema]) -> Schema:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _properties(schema: Schema) -> dict[str, Schema]:
    found: dict[str, Schema] = schema.get("properties", {})
    return found
