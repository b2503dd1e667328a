"""Describes each view to drf-spectacular, which collects the operations of the OpenAPI document."""

from __future__ import annotations

import json
import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from statecore.records.token import Scope

from ..access import SAFE
from .examples import add_examples
from .operation import render

# Marks an operation without a summary; the value is the view.
UNDESCRIBED = "x-undescribed-view"
REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')
PATH_PARAM = re.compile(r"\{(\w+)\}")


class Inspector(AutoSchema):
    """Uses our description of a view. A view without one is described by drf-spectacular, from its code."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Any:
        from . import monitoring, operations, schedules, webhooks

        parts = (operations, monitoring, schedules, webhooks)
        known = {view: describe for part in parts for view, describe in part.DESCRIPTIONS.items()}
        describe = next((known[kind] for kind in type(self.view).__mro__ if kind in known), None)
        if describe is None:
            found = super().get_operation(path, path_regex, path_prefix, method, registry)
            return found and {**self._summarize(method), **found}
        collection, *rest = [part for part in path.removeprefix("/api/v1/").split("/") if part]
        words = [part.strip("{}").replace("-", "_") for part in rest]
        name = "_".join([method.lower(), collection.replace("-", "_"), *words])
        call = describe(self.view, method)
        call.description = "\n\n".join(each for each in (call.description, describe_rights(self.view, method)) if each)
        return render(call, method, collection, name, PATH_PARAM.findall(path))

    def _summarize(self, method: str) -> dict[str, str]:
        """Returns the first line of the docstring of the method or the view, or marks the view as undescribed."""
        kind = type(self.view)
        text = getattr(kind, method.lower()).__doc__ or kind.__doc__ or ""
        first = text.strip().partition("\n")[0].removesuffix(".")
        return {"summary": first} if first else {UNDESCRIBED: f"{kind.__module__}.{kind.__qualname__}"}


def describe_rights(view: Any, method: str) -> str:
    """Return the scope and the permission that a call needs."""
    scopes = (Scope.READ,) if method in SAFE else view.writes_need
    permission = view.read_permission if method in SAFE else view.write_permission
    scope = " or ".join(f"`{scope}`" for scope in scopes)
    return f"Takes a token of the scope {scope}{f' and the permission `{permission}`' if permission else ''}."


def complete_document(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Adds the schemas that the operations refer to, and what drf-spectacular leaves out; its last step.

    Paths are named without their final slash, as the style guides of OpenAPI recommend. The server accepts both.
    """
    from .operations import claim_components
    from .schemas import components
    from .webhooks import build_components

    result["paths"] = {path.removesuffix("/"): methods for path, methods in result["paths"].items()}
    parts = result.setdefault("components", {})
    described = {**components(), **claim_components(), **build_components()}
    parts["schemas"] = select_used({**described, **parts.get("schemas", {})}, result["paths"])
    add_examples(result["paths"], parts["schemas"])
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
    }
    used = {tag for methods in result["paths"].values() for call in methods.values() for tag in call["tags"]}
    result["tags"] = [{"name": tag, "description": tag.replace("-", " ").capitalize() + "."} for tag in sorted(used)]
    return result


def select_used(schemas: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    """Returns the schemas that the paths refer to, directly or through other schemas."""
    used: set[str] = set()
    found = set(REFERENCE.findall(json.dumps(paths, default=str)))
    while found:
        used |= found
        found = {name for each in found for name in REFERENCE.findall(json.dumps(schemas[each]))} - used
    return {name: schema for name, schema in schemas.items() if name in used}
