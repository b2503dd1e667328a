"""The calls of the OpenAPI document by the names that their declarations give them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from .operation import CALL
from .views import build_document


class DeclaredCall(NamedTuple):
    """A call: its paths and operations are one, or one of each machine."""

    name: str
    verb: str
    paths: list[str]
    operations: list[Any]

    @property
    def is_read(self) -> bool:
        return self.verb == "GET"

    @property
    def is_written(self) -> bool:
        """Whether the method of the client is written by hand."""
        return bool(self.operations[0][CALL]["is_written"])

    @property
    def is_generic(self) -> bool:
        return len(self.paths) > 1


@cache
def list_calls() -> dict[str, DeclaredCall]:
    found: dict[str, DeclaredCall] = {}
    for path, operations in build_document()["paths"].items():
        for verb, operation in operations.items():
            if name := operation.get(CALL, {}).get("name"):
                call = found.setdefault(name, DeclaredCall(name, verb.upper(), [], []))
                call.paths.append(path)
                call.operations.append(operation)
    return dict(sorted(found.items()))
