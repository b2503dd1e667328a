"""Describes each view to drf-spectacular, which collects the operations of the OpenAPI document."""

from __future__ import annotations

import json
import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from ..responses import JSON
from .examples import add_examples, resolve
from .operation import find_operation, render
from .schemas import components

# Marks a call without a declaration; the value is the method of the view.
UNDECLARED = "x-undeclared-call"
REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')
PATH_PARAM = re.compile(r"\{(\w+)\}")


class Inspector(AutoSchema):
    """Describes a call as its view declares it. One without a declaration is described from its code, and marked."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Any:
        declared = find_operation(self.view, method)
        if declared is None:
            found = super().get_operation(path, path_regex, path_prefix, method, registry)
            kind = type(self.view)
            return found and {**found, UNDECLARED: f"{kind.__module__}.{kind.__qualname__}.{method.lower()}"}
        collection, *rest = [part for part in path.removeprefix("/api/v1/").split("/") if part]
        words = [part.strip("{}").replace("-", "_") for part in rest]
        name = "_".join([method.lower(), collection.replace("-", "_"), *words])
        return render(declared, self.view, method, collection, name, PATH_PARAM.findall(path))


def complete_document(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Adds the schemas that the operations refer to, and what drf-spectacular leaves out; its last step.

    Paths are named without their final slash, as the style guides of OpenAPI recommend. The server accepts both.
    """
    result["paths"] = {path.removesuffix("/"): methods for path, methods in result["paths"].items()}
    parts = result.setdefault("components", {})
    parts["schemas"] = select_used({**components(), **parts.get("schemas", {})}, result["paths"])
    mark_required_bodies(result["paths"], parts["schemas"])
    add_examples(result["paths"], parts["schemas"])
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
    }
    used = {tag for methods in result["paths"].values() for call in methods.values() for tag in call["tags"]}
    result["tags"] = [{"name": tag, "description": tag.replace("-", " ").capitalize() + "."} for tag in sorted(used)]
    return result


def mark_required_bodies(paths: dict[str, Any], schemas: dict[str, Any]) -> None:
    """A body may be omitted if none of its fields is required."""
    for methods in paths.values():
        for operation in methods.values():
            body = operation.get("requestBody", {})
            if found := body.get("content", {}).get(JSON):
                schema = resolve(found["schema"], schemas)
                body["required"] = bool(schema.get("required") or schema.get("anyOf"))


def select_used(schemas: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    """Returns the schemas that the paths refer to, directly or through other schemas."""
    used: set[str] = set()
    found = set(REFERENCE.findall(json.dumps(paths, default=str)))
    while found:
        used |= found
        found = {name for each in found for name in REFERENCE.findall(json.dumps(schemas[each]))} - used
    return {name: schema for name, schema in schemas.items() if name in used}
