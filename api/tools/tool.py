"""A tool is a call of the API: a method of the client, with what the declaration of the call says of its result."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta

from statecore.records.token import Scope
from statecore_client import AsyncClient

from ..openapi.calls import DeclaredCall, list_calls
from ..openapi.examples import resolve
from ..openapi.fields import Schema
from ..openapi.inspector import select_used
from ..openapi.schemas import FLAG, array, obj
from ..openapi.views import build_document
from ..responses import JSON

LIMIT = Annotated[int, Meta(ge=1, le=200, description="maximum number of results")]
# What arguments mean to a language model, and their types where those of the client are wider.
TYPES: dict[str, Any] = {
    "after": Annotated[int, Meta(ge=0, description="the number of the last line that you have read")],
    "attempt": Annotated[int, Meta(description="the attempt that the claim returned")],
    "capabilities": list[str],
    "collection": Annotated[str, Meta(description="tasks, runs, workstreams, workers, patches, gates, breakers, …")],
    "diff": Annotated[str, Meta(description="a unified diff, as `git diff` prints it")],
    "entity_type": Annotated[str, Meta(description="task, run, workstream, worker, …")],
    "expected_version": Annotated[int, Meta(description="refuse if the entity has another version")],
    "lines": Annotated[list[str], Meta(min_length=1, max_length=1_000)],
    "plan": Annotated[
        dict[str, Any],
        Meta(description='{"id"?, "phase", "workstreams": [{"id", "tasks": [{"id", "depends_on"?, …}]}], "start"?}'),
    ],
    "reason": Annotated[str, Meta(description="the reason, recorded in the event")],
    "result": Annotated[Any, Meta(description="any JSON up to 256 kB, an input of the tasks that depend on this")],
    "tool": Annotated[str, Meta(description="the id of the tool, such as pytest")],
    "trigger": Annotated[str, Meta(description="a trigger that `explain` reports as allowed")],
    "wait": Annotated[float, Meta(ge=0, le=20, description="seconds to wait for a task")],
}


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    # The name of the declared call, which is also the method of the client, unless `performs` is given.
    call_name: str
    # The arguments of the method that the tool has; with `limit`, it returns a part of a list.
    takes: tuple[str, ...] = ()
    # The method, or a function that takes the client, if it is not the one of the call.
    performs: str | Callable[..., Any] = ""
    # Arguments of the method that the tool sets.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # The member of the result that has a list or a number.
    member: str = "results"
    # The collection, if the call is one of every machine and the tool of one.
    collection: str = ""

    @property
    def call(self) -> DeclaredCall:
        return list_calls()[self.call_name]

    @property
    def scope(self) -> Scope:
        return Scope.READ if self.call.is_read else Scope.AGENT

    @cached_property
    def arguments(self) -> type[msgspec.Struct]:
        """The arguments as a struct, which refuses unknown ones."""
        described = self._find_function(AsyncClient)
        function = getattr(described, "describe", described)
        parameters, hints = inspect.signature(function).parameters, get_type_hints(function, include_extras=True)
        members: list[tuple[str, Any, Any]] = []
        for name in self.takes:
            if name == "limit":
                members.append((name, LIMIT, 50))
            else:
                default = parameters[name].default
                kind = TYPES.get(name, hints[name])
                found = NODEFAULT if default is inspect.Parameter.empty else default
                members.append((name, kind | None if default is None else kind, found))
        return msgspec.defstruct(self.name, members, kw_only=True, forbid_unknown_fields=True)

    @property
    def schema(self) -> Schema:
        _parts, components = msgspec.json.schema_components([self.arguments])
        schema: Schema = components[self.name]
        return schema

    @cached_property
    def output_schema(self) -> Schema:
        """The schema of a result, whose root is an object, as the protocol requires."""
        operations = zip(self.call.paths, self.call.operations, strict=True)
        prefix = f"/api/v1/{self.collection}"
        found = _join([_read_response(each) for path, each in operations if path.startswith(prefix)])
        if "results" in found["properties"]:
            items = _merge(found["properties"]["results"]["items"])
            found = obj({self.member: array(items), "more": FLAG}, [self.member])
        used = select_used(_get_schemas(), {"": {"": found}})
        text = json.dumps({**found, "$defs": used}).replace("#/components/schemas/", "#/$defs/")
        schema: Schema = _split_types(json.loads(text))
        return schema

    def _find_function(self, client: Any) -> Callable[..., Any]:
        """Returns the method of the client or of its class, or the function."""
        if callable(self.performs):
            return self.performs if isinstance(client, type) else partial(self.performs, client)
        found: Callable[..., Any] = getattr(client, self.performs or self.call_name)
        return found

    async def perform(self, client: AsyncClient, arguments: msgspec.Struct) -> dict[str, Any]:
        given = {name: value for name, value in msgspec.structs.asdict(arguments).items() if value is not None}
        limit = given.pop("limit", None)
        found = self._find_function(client)(**given, **self.fixed)
        result = await (_take(found, limit) if isinstance(found, AsyncIterator) else found)
        if isinstance(result, list):
            rows = [_get_fields(each) for each in result]
            return {self.member: rows[:limit], **({} if limit is None else {"more": len(rows) > limit})}
        fields = _get_fields(result)
        return fields if isinstance(fields, dict) else {self.member: fields}


async def _take(found: AsyncIterator[Any], limit: int) -> list[Any]:
    """Returns at most one more than `limit`, which shows that there are more."""
    rows: list[Any] = []
    async for each in found:
        rows.append(each)
        if len(rows) > limit:
            break
    return rows


def _get_fields(result: Any) -> Any:
    return getattr(result, "fields", result)


def _get_schemas() -> dict[str, Schema]:
    schemas: dict[str, Schema] = build_document()["components"]["schemas"]
    return schemas


def _read_response(operation: Any) -> Schema:
    schema: Schema = operation["responses"][min(operation["responses"])]["content"][JSON]["schema"]
    return schema


def _merge(schema: Schema) -> Schema:
    """Returns an object with all its members. None of them is required: a tool may leave some out."""
    schema = resolve(schema, _get_schemas())
    if parts := [_merge(each) for each in schema.get("allOf", ())]:
        return obj({name: each for part in parts for name, each in part["properties"].items()}, [])
    return {name: each for name, each in schema.items() if name != "required"}


def _split_types(schema: Any) -> Any:
    """Returns the schema with one type for each alternative, because not all models take lists of types."""
    if isinstance(schema, list):
        return [_split_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _split_types(each) for name, each in schema.items()}
    if not isinstance(types := found.get("type"), list):
        return found
    return {"anyOf": [{"type": each} if each == "null" else {**found, "type": each} for each in types]}


def _join(schemas: list[Schema]) -> Schema:
    """Returns what the results of a call have in common, if it is a call of several machines."""
    first, *others = [_merge(each) for each in schemas]
    if all(each == first for each in others):
        return first
    if all("items" in each for each in (first, *others)):
        return array(_join([each["items"] for each in (first, *others)]))
    if not all("properties" in each for each in (first, *others)):
        return {}
    shared = [name for name in first["properties"] if all(name in each["properties"] for each in others)]
    return obj({name: _join([each["properties"][name] for each in (first, *others)]) for name in shared}, [])
