"""The schema is OpenAPI 3.1 and lists every call; its page loads nothing from other sites."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from django.db.models import JSONField
from django.urls import get_resolver

from statecore.api.openapi.fields import STORED
from statecore.api.openapi.inspector import select_used
from statecore.kernel import registry
from statecore.records import Phase
from tests.api.callers import Caller, expect_ok
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def document() -> dict:
    return dict(expect_ok(Caller("read").get("schema/")))


def test_it_is_openapi_3_1_and_every_reference_leads_somewhere(document: dict) -> None:
    assert document["openapi"].startswith("3.1")
    named = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert named
    assert named <= document["components"]["schemas"].keys()


def test_the_schema_has_every_call_of_every_machine(document: dict) -> None:
    for flow in registry.flows():
        for rest in ("", "/{entity_id}", "/{entity_id}/transitions", "/{entity_id}/explain", "/{entity_id}/override",
                     "/{entity_id}/retry", "/bulk-transitions"):  # fmt: skip
            assert f"/api/v1/{flow.collection}{rest}" in document["paths"]


def test_the_schema_has_every_trigger_with_its_fields(document: dict) -> None:
    for flow in registry.flows():
        call = document["paths"][f"/api/v1/{flow.collection}/{{entity_id}}/transitions"]["post"]
        body = resolve(document, call["requestBody"]["content"]["application/json"]["schema"])
        shapes = [resolve(document, shape) for shape in body["anyOf"]]
        assert {shape["properties"]["trigger"]["const"] for shape in shapes} == set(flow.triggers)


def resolve(document: dict, schema: dict) -> dict:
    return dict(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])


def test_values_of_an_enum_differ_by_more_than_case(document: dict) -> None:
    """Generators name the members of an enum in upper case."""
    enums = [
        (place, [str(value).upper() for value in schema["enum"]])
        for place, schema in walk(document)
        if "enum" in schema
    ]
    assert enums
    assert [place for place, names in enums if len(names) != len(set(names))] == []


def test_every_array_names_its_items_and_every_json_column_its_content(document: dict) -> None:
    """Generators leave out a model, and every call that returns it, if one of its arrays has no items."""
    assert [place for place, schema in walk(document) if "array" in types(schema) and "items" not in schema] == []
    unnamed = {
        f"{flow.entity_type}.{field.name}"
        for flow in registry.flows()
        for field in flow.model._meta.concrete_fields
        if isinstance(field, JSONField) and not field.validators and field.name not in STORED
    }
    assert unnamed == set(), "describe them in api/openapi/fields.py"


def walk(value: Any, place: str = "") -> Iterator[tuple[str, dict]]:
    if isinstance(value, dict):
        yield place, value
        for name, each in value.items():
            yield from walk(each, f"{place}/{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from walk(each, f"{place}[{number}]")


def types(schema: dict) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind) if isinstance(kind, list) else []


def test_names_of_operations_are_unique(document: dict) -> None:
    names = [call["operationId"] for methods in document["paths"].values() for call in methods.values()]
    assert len(names) == len(set(names))


def test_every_address_is_described_but_the_schema_and_the_page(document: dict) -> None:
    described = {re.sub(r"\{\w+\}", "{}", path) for path in document["paths"]}
    for path in addresses():
        assert f"/api/v1/{path}".removesuffix("/") in described, path


def addresses() -> list[str]:
    below = [each for pattern in get_resolver("statecore.api.urls").url_patterns for each in found_below(pattern)]
    return [path for path in below if path not in ("schema/", "docs/", "")]


def found_below(pattern: Any, before: str = "") -> list[str]:
    path = before + re.sub(r"<\w+:\w+>", "{}", str(pattern.pattern))
    if not hasattr(pattern, "url_patterns"):
        return [path]
    return [each for below in pattern.url_patterns for each in found_below(below, path)]


def test_every_refusal_has_a_place_on_the_page() -> None:
    caller = Caller("read")
    page = caller.get("docs/").content.decode()
    problem = caller.get("tasks/nope/").json()
    assert f'id="{problem["type"].partition("#")[2]}"' in page
    assert not re.findall(r"""(?:src|href)=["']https?:""", page)
    assert "<script>" not in page
    assert "style=" not in page


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_final_slash_of_a_path_may_be_omitted(slash: str) -> None:
    task, caller = world.task(), Caller("operate")

    assert expect_ok(caller.get(f"tasks{slash}"))["results"][0]["id"] == task.pk
    assert expect_ok(caller.get(f"tasks/{task.pk}{slash}"))["id"] == task.pk
    assert expect_ok(caller.get(f"tasks/{task.pk}/transitions{slash}"))["results"]
    assert expect_ok(caller.get(f"stats{slash}"))["counts"]
    assert caller.get(f"machines/task/diagram.svg{slash}").status_code == (404 if slash else 200)


def test_a_repeated_key_is_recognized_with_and_without_the_final_slash() -> None:
    task, caller = world.task(), Caller("operate")
    body = {"trigger": "user_cancelled", "reason": "not needed", "request_id": "once"}

    first = expect_ok(caller.post(f"tasks/{task.pk}/transitions", body))
    again = caller.post(f"tasks/{task.pk}/transitions/", body)

    assert again["Idempotent-Replayed"] == "true"
    assert again.json()["event"] == first["event"]


def bodies(document: dict) -> Iterator[tuple[str, str, dict, dict[str, Any]]]:
    """Yields method, path, schema and the examples by name of each JSON body."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content:
                named = content.get("examples") or {"": {"value": content["example"]}}
                yield method, path, content["schema"], {name: each["value"] for name, each in named.items()}


def test_every_body_has_an_example_that_its_schema_accepts(document: dict) -> None:
    refused = []
    for method, path, schema, examples in bodies(document):
        used = select_used(document["components"]["schemas"], {"": {"": schema}})
        validator = jsonschema_rs.validator_for({"components": {"schemas": used}, **schema})
        refused += [(method, path, name) for name, each in examples.items() if not validator.is_valid(each)]
    assert refused == []


def test_the_server_accepts_every_example(document: dict) -> None:
    """What an example refers to does not exist here, so 404 and 409 are expected, and 400 for nothing else."""
    caller = Caller("override")
    Phase.objects.create(id="phase-1")
    refused = []
    for method, path, _schema, examples in bodies(document):
        for name, example in examples.items():
            answer = caller(method, re.sub(r"\{\w+\}", "nothing", path).removeprefix("/api/v1/"), example)
            if answer.status_code in (400, 413, 415, 422) and not names_what_is_missing(answer.json()):
                refused.append((method, path, name, answer.json()["detail"]))
            assert answer.status_code < 500
    # No checkpoint has been signed here, so no cosignature can be verified.
    assert [each for each in refused if "cosignatures" not in each[1]] == []


def names_what_is_missing(problem: dict[str, Any]) -> bool:
    sentences = [sentence for each in problem.get("errors", {}).values() for sentence in each]
    return bool(sentences) and all("is not a valid choice" in each or "there is no" in each for each in sentences)
