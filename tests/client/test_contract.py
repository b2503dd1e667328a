"""The client and the tools for language models make every call of the OpenAPI document, and only as it declares."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import jsonschema_rs
import msgspec
import pytest

from statecore.api.openapi.examples import TEXTS, build_example
from statecore.api.openapi.views import build_document
from statecore.api.tools.catalogue import catalogue
from statecore.api.tools.tool import Tool
from statecore.kernel import registry
from statecore.records.token import Scope
from statecore_client import AsyncClient, Client, RetryPolicy
from statecore_client.call import call, paged_call
from statecore_client.records import Entity, Record, Task
from tests.client.contract import Contract

URL = "http://127.0.0.1"
AT = datetime(2030, 1, 1, tzinfo=UTC)
COLLECTIONS = [*(flow.collection for flow in registry.flows()), "phases", "diffs"]
# Arguments whose content the annotation does not describe.
ARGUMENTS: dict[str, Any] = {
    **TEXTS,
    "plan": {"phase": "p", "workstreams": [{"id": "w", "tasks": [{"id": "t"}]}]},
    "reports": [{"task": "t", "attempt": 1, "trigger": "execution_completed", "exit_code": 0}],
    "holds": [Task(id="t", attempt=1)],
    "progress": {"t": {"fraction": 0.5, "detail": "half"}},
    "lines": ["text", {"text": "more", "stream": "stderr"}],
    "event": {"type": "message", "payload": {}},
    "category": "stuck",
    "filter": {"entity_type": "task"},
    "parameters": {"branch": {"type": "string"}},
    "affinity": {"workstreams": ["w"]},
    "file": io.BytesIO(),
    "fraction": 0.5,
}
# Attributes that the client sets.
COMPUTED = {"fields", "replayed", "run"}
# Drawings for a browser, which a program has no use for.
NO_METHOD = {"get_machines_entity_type_diagram.svg", "get_machines_entity_type_diagram.mmd"}


@pytest.fixture
def contract() -> Contract:
    return Contract()


@pytest.fixture
def client(contract: Contract) -> Client:
    return Client(URL, "token", transport=contract, retry_policy=RetryPolicy(total=0))


def list_methods() -> dict[str, Any]:
    return {name: method for name, method in inspect.getmembers(Client) if isinstance(method, call | paged_call)}


def fill(parameter: inspect.Parameter) -> Any:
    """Returns a value for a parameter, from its name or its annotation."""
    if str(parameter.annotation).startswith("Literal["):
        return re.findall(r"\w+", str(parameter.annotation))[1]
    if parameter.name in ARGUMENTS:
        return ARGUMENTS[parameter.name]
    samples = {
        "bool": parameter.default is not True,
        "int": 1,
        "float": 1.0,
        "datetime": AT,
        "bytes": b"content",
        "Iterable[str]": ["one"],
        "Sequence[str]": ["one"],
        "Any": {"any": "value"},
    }
    kind = str(parameter.annotation).partition(" | ")[0]
    if kind.startswith("Literal["):
        return get_args(eval(kind, {"Literal": Literal}))[0]  # noqa: S307 - an annotation of ours
    return samples.get(kind, {} if kind.startswith("Mapping") else f"{parameter.name}-1")


def list_arguments(method: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yields the arguments of a call with what it needs, and with all that it takes."""
    found = [*inspect.signature(method.describe).parameters.values()][1:]
    named = [each for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD]
    for chosen in ([each for each in named if each.default is each.empty], named):
        by_name = {each.name: fill(each) for each in chosen if each.kind is inspect.Parameter.KEYWORD_ONLY}
        yield [fill(each) for each in chosen if each.name not in by_name], by_name


def perform(client: Client, name: str, *args: Any, **fields: Any) -> list[Any]:
    found = getattr(client, name)(*args, **fields)
    return list(found) if isinstance(found, list) or inspect.isgenerator(found) else [found]


def list_generic_arguments(name: str, collection: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yields the arguments after the collection with which a call of any collection is performed."""
    triggers = [{**each} for each in get_examples(f"{collection}/{{entity_id}}/transitions", "post")]
    match name:
        case "get" | "edit" | "list_history" | "explain" | "retry" | "renew":
            yield ["e"], {}
        case "get_page" | "list":
            yield [], {}
        case "create":
            yield [], get_examples(collection, "post")[0]
        case "override":
            initial = next((flow.initial for flow in registry.flows() if flow.collection == collection), "")
            yield ["e", initial], {"reason": TEXTS["reason"], "category": "stuck"}
        case "fire":
            yield from ((["e", each.pop("trigger")], each) for each in triggers)
        case "fire_for_many":
            yield from (([each["trigger"]], {"ids": ["e"]}) for each in triggers if each.keys() == {"trigger"})
        case "apply_to_many":
            for each in get_examples(f"{collection}/bulk", "post"):
                matching = each.pop("filter", None)
                yield [each.pop("action")], {**each, "matching": matching}


# The last parts of the paths of calls that not every collection has.
PATHS = {
    "edit": "patch /{entity_id}",
    "list_history": "get /{entity_id}/transitions",
    "explain": "get /{entity_id}/explain",
    "override": "post /{entity_id}/override",
    "retry": "post /{entity_id}/retry",
    "renew": "post /{entity_id}/heartbeat",
    "fire": "post /{entity_id}/transitions",
    "fire_for_many": "post /bulk-transitions",
    "apply_to_many": "post /bulk",
}


def has_call(name: str, collection: str) -> bool:
    method, _, rest = PATHS.get(name, "get ").partition(" ")
    path, paths = f"/api/v1/{collection}{rest}", build_document()["paths"]
    return method in {**paths.get(path, {}), **paths.get(path.replace("entity", "record"), {})}


def get_examples(path: str, method: str) -> list[dict[str, Any]]:
    operation = build_document()["paths"].get(f"/api/v1/{path}", {}).get(method)
    if operation is None:
        return []
    content = operation["requestBody"]["content"]["application/json"]
    named = content.get("examples") or {"": {"value": content["example"]}}
    return [dict(each["value"]) for each in named.values()]


def test_every_call_has_a_method_and_every_method_sends_and_reads_what_the_call_declares(
    client: Client, contract: Contract
) -> None:
    made: list[Any] = []
    for name, method in list_methods().items():
        if "collection" in inspect.signature(method.describe).parameters:
            for collection in filter(lambda each: has_call(name, each), COLLECTIONS):
                for args, fields in list_generic_arguments(name, collection):
                    made += perform(client, name, collection, *args, **fields)
        else:
            for args, fields in list_arguments(method):
                made += perform(client, name, *args, **fields)

    every = {each["operationId"] for methods in build_document()["paths"].values() for each in methods.values()}
    assert every - {each["operationId"] for each in contract.called} == NO_METHOD
    assert find_unknown_attributes(made) == {}


def find_unknown_attributes(made: list[Any]) -> dict[str, set[str]]:
    """Returns the attributes of records that no response has, which are misspelt or gone."""
    missing: dict[type[Record], set[str]] = {}
    for record in (each for each in made if isinstance(each, Record) and type(each) is not Entity):
        absent = set(record.__struct_fields__) - COMPUTED - record.fields.keys()
        missing[type(record)] = missing.get(type(record), absent) & absent
    return {kind.__name__: names for kind, names in missing.items() if names}


def test_every_tool_makes_calls_of_its_scope_and_returns_what_it_declares() -> None:
    for name, tool in catalogue.items():
        contract = Contract()
        result = asyncio.run(call_tool(tool, contract, build_arguments(tool.schema)))
        assert contract.called, name
        for operation in contract.called:
            scopes = {Scope.READ} if operation["operationId"].startswith("get_") else {tool.scope}
            assert any(f"`{scope}`" in operation["description"] for scope in scopes), (name, operation["operationId"])
        jsonschema_rs.validator_for(tool.output_schema).validate(json.loads(json.dumps(result, default=str)))


async def call_tool(tool: Tool, contract: Contract, arguments: dict[str, Any]) -> Any:
    async with AsyncClient(URL, "token", transport=contract, retry_policy=RetryPolicy(total=0)) as client:
        return await tool.perform(client, msgspec.convert(arguments, tool.arguments))


def build_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns every argument of a tool, or what it needs of those whose names the API checks."""
    known: dict[str, Any] = {
        "collection": "tasks",
        "trigger": "user_cancelled",
        "filters": {},
        "plan": ARGUMENTS["plan"],
    }
    known["fields"] = {} if "trigger" in schema["properties"] else get_examples("tasks", "post")[0]
    return {
        name: known[name] if name in known else build_example(each, {}, name)
        for name, each in schema["properties"].items()
    }
