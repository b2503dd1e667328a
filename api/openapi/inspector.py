"""Where drf-spectacular asks what a view does."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from .call import operation

IN_PATH = re.compile(r"\{(\w+)\}")


class Inspector(AutoSchema):
    """A view that is described is told by its description, any other one by what drf-spectacular finds in it."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Any:
        from . import calls, screens

        known = {**calls.DESCRIPTIONS, **screens.DESCRIPTIONS}
        describe = next((known[kind] for kind in type(self.view).__mro__ if kind in known), None)
        if describe is None:
            return super().get_operation(path, path_regex, path_prefix, method, registry)
        collection, *rest = [part for part in path.removeprefix("/api/v1/").split("/") if part]
        words = [part.strip("{}").replace("-", "_") for part in rest]
        name = "_".join([method.lower(), collection.replace("-", "_"), *words])
        return operation(describe(self.view, method), method, collection, name, IN_PATH.findall(path))


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """The last step of drf-spectacular: what the operations refer to."""
    from .schemas import components

    parts = result.setdefault("components", {})
    parts["schemas"] = {**components(), **parts.get("schemas", {})}
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
    }
    return result
