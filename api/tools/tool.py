"""The declaration of a tool: a call of the API with typed arguments and a required scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

import msgspec

from statecore.records.token import Scope
from statecore_client import AsyncClient

A = TypeVar("A", bound="Arguments")


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of every tool's arguments; unknown ones are refused."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    scope: Scope
    arguments: type[Arguments]
    returns: type[msgspec.Struct]
    call: Callable[[AsyncClient, Any], Awaitable[Any]]

    @property
    def schema(self) -> dict[str, Any]:
        _parts, components = msgspec.json.schema_components([self.arguments])
        schema: dict[str, Any] = components[self.arguments.__name__]
        return schema

    @property
    def output_schema(self) -> dict[str, Any]:
        """The schema of a result, whose root is an object, as the protocol requires."""
        _parts, parts = msgspec.json.schema_components([self.returns], ref_template="#/$defs/{name}")
        return {**parts[self.returns.__name__], "$defs": parts}

    @property
    def is_read_only(self) -> bool:
        return self.scope is Scope.READ


catalogue: dict[str, Tool] = {}


def tool(
    scope: Scope, returns: type[msgspec.Struct]
) -> Callable[[Callable[[AsyncClient, A], Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
    """Declare a function as a tool; its docstring is the description, the type of `arguments` the input schema."""

    def declare(function: Callable[[AsyncClient, A], Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        name = function.__name__
        catalogue[name] = Tool(
            name, function.__doc__ or "", scope, get_type_hints(function)["arguments"], returns, function
        )
        return function

    return declare
