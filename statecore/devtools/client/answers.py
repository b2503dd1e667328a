"""What a method returns, and how it is read from the response."""

from __future__ import annotations

from typing import Any, NamedTuple

from statecore.api.openapi.examples import resolve
from statecore.api.openapi.fields import Schema
from statecore.api.openapi.operation import CALL
from statecore.api.responses import JSON
from statecore.kernel import registry

from .arguments import get_schemas
from .models import WRITTEN, list_models


class Answer(NamedTuple):
    """The type that a method returns, and the expression that reads it from the response."""

    kind: str
    read: str


def find_answer(operation: Any) -> Answer:
    status = min(operation["responses"])
    content = operation["responses"][status].get("content", {})
    if JSON in content:
        return _read(content[JSON]["schema"], is_whole=bool(operation[CALL].get("is_whole")))
    return Answer("str", "read_text") if content else Answer("None", "read_nothing")


def _read(schema: Schema, *, is_whole: bool = False) -> Answer:
    if answer := _read_named(schema):
        return answer
    schema = resolve(schema, get_schemas())
    properties = schema.get("properties", {})
    if "results" in properties:
        item = _read(properties["results"]["items"])
        if "next" in properties and not is_whole:
            return Answer(f"Page[{item.kind}]", f"read_page_of({item.read})")
        if "next" in properties or item.kind != "Json":
            return Answer(f"builtins.list[{item.kind}]", f"read_results_of({item.read})")
    if {"changed", "event", "entity"} <= properties.keys():
        return Answer("Outcome", "read_outcome")
    if len(properties) == 1 and (only := _read_named(next(iter(properties.values())))):
        return Answer(only.kind, f'read_member("{next(iter(properties))}", {only.kind})')
    return Answer("Json", "read_object")


def _read_named(schema: Schema) -> Answer | None:
    """Returns how a schema with a name is read; of one with more members, its first part."""
    name = schema.get("allOf", [schema])[0].get("$ref", "").rpartition("/")[2]
    if name in WRITTEN:
        return Answer(*WRITTEN[name])
    if name.removeprefix("Created") in _list_machine_components():
        return Answer("Entity", "read_entity")
    return Answer(name, f"read_as({name})") if name in list_models() else None


def _list_machine_components() -> set[str]:
    return {flow.model.__name__ for flow in registry.flows()}
