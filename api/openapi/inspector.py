"""Describes each view to drf-spectacular, which collects the operations of the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from .operation import render

# Marks an operation without a summary; the value is the view.
UNDESCRIBED = "x-undescribed-view"
PATH_PARAM = re.compile(r"\{(\w+)\}")


class Inspector(AutoSchema):
    """Uses our description of a view. A view without one is described by drf-spectacular, from its code."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Any:
        from . import monitoring, operations

        known = {**operations.DESCRIPTIONS, **monitoring.DESCRIPTIONS}
        describe = next((known[kind] for kind in type(self.view).__mro__ if kind in known), None)
        if describe is None:
            found = super().get_operation(path, path_regex, path_prefix, method, registry)
            return found and {**self._summarize(method), **found}
        collection, *rest = [part for part in path.removeprefix("/api/v1/").split("/") if part]
        words = [part.strip("{}").replace("-", "_") for part in rest]
        name = "_".join([method.lower(), collection.replace("-", "_"), *words])
        return render(describe(self.view, method), method, collection, name, PATH_PARAM.findall(path))

    def _summarize(self, method: str) -> dict[str, str]:
        """Returns the first line of the docstring of the method or the view, or marks the view as undescribed."""
        kind = type(self.view)
        text = getattr(kind, method.lower()).__doc__ or kind.__doc__ or ""
        first = text.strip().partition("\n")[0].removesuffix(".")
        return {"summary": first} if first else {UNDESCRIBED: f"{kind.__module__}.{kind.__qualname__}"}


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Adds the schemas that the operations refer to, as the last step of drf-spectacular."""
    from .schemas import components

    parts = result.setdefault("components", {})
    parts["schemas"] = {**components(), **parts.get("schemas", {})}
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
    }
    return result
