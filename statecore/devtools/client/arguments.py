"""The arguments of a method, from the schemas of a query or a body."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from statecore.api.openapi.examples import resolve
from statecore.api.openapi.fields import Schema
from statecore.api.openapi.views import build_document
from statecore.api.responses import JSON

TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "Mapping[str, Any]"}
# Longer lists of values are of machines, to which an installation may add its own.
MAX_VALUES = 10
KEY = "request_id"


class Argument(NamedTuple):
    name: str
    annotation: str
    is_required: bool = True
    # What stands for an argument that is not given.
    default: str = "None"

    def render(self) -> str:
        if self.is_required:
            return f"{self.name}: {self.annotation}"
        unset = {"None": " | None", "UNSET": " | UnsetType"}[self.default]
        more = "" if self.annotation == "Any" or self.annotation.endswith(unset) else unset
        return f"{self.name}: {self.annotation}{more} = {self.default}"


def get_schemas() -> dict[str, Schema]:
    schemas: dict[str, Schema] = build_document()["components"]["schemas"]
    return schemas


def list_shapes(operation: Any) -> list[Schema]:
    """Returns the schema of the body, or of each form that it may have."""
    content = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if content is None:
        return []
    schema = resolve(content["schema"], get_schemas())
    return [resolve(each, get_schemas()) for each in schema.get("anyOf", [schema])]


def join(
    shapes: list[dict[str, Schema]], required: set[str], default: str = "None", *, is_query: bool = False
) -> tuple[list[Argument], bool]:
    common = set.intersection(*map(set, shapes)) - {KEY}
    arguments = []
    for name, schema in shapes[0].items():
        if name in common:
            is_same = all(each[name] == schema for each in shapes)
            kind = annotate(schema, is_query=is_query, lists_values=is_same)
            arguments.append(Argument(name, kind, name in required, default))
    return arguments, any(shape.keys() - common - {KEY} for shape in shapes)


def annotate(schema: Schema, *, is_query: bool = False, lists_values: bool = True) -> str:
    """Returns the type of an argument."""
    kinds = schema.get("type", "")
    kind = next((each for each in kinds if each != "null"), "") if isinstance(kinds, list) else kinds
    if kind == "array":
        found = f"Sequence[{annotate(schema['items'], lists_values=lists_values)}]"
        found = f"str | {found}" if is_query else found
    elif kind == "string" and schema.get("format") == "date-time":
        found = "datetime"
    else:
        found = (lists_values and _list_values(schema)) or TYPES.get(kind, "str" if "const" in schema else "Any")
    return f"{found} | None" if isinstance(kinds, list) and "null" in kinds and len(kinds) == 2 else found


def _list_values(schema: Schema) -> str:
    values = [each for each in schema.get("enum", ()) if each is not None]
    return f"Literal[{', '.join(map(json.dumps, values))}]" if 0 < len(values) <= MAX_VALUES else ""
