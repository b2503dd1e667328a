"""The schema is OpenAPI 3.1 and lists every call; its page loads nothing from other sites."""

import re
from typing import Any

import pytest
from django.urls import get_resolver

from statecore.kernel import registry
from tests.api.callers import Caller, expect_ok

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
        for rest in ("", "{entity_id}/", "{entity_id}/transitions/", "{entity_id}/explain/", "{entity_id}/override/",
                     "{entity_id}/retry/", "bulk-transitions/"):  # fmt: skip
            assert f"/api/v1/{flow.collection}/{rest}" in document["paths"]


def test_the_schema_has_every_trigger_with_its_fields(document: dict) -> None:
    for flow in registry.flows():
        call = document["paths"][f"/api/v1/{flow.collection}/{{entity_id}}/transitions/"]["post"]
        shapes = call["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
        assert {shape["properties"]["trigger"]["const"] for shape in shapes} == set(flow.triggers)


def test_names_of_operations_are_unique(document: dict) -> None:
    names = [call["operationId"] for methods in document["paths"].values() for call in methods.values()]
    assert len(names) == len(set(names))


def test_every_address_is_described_but_the_schema_and_the_page(document: dict) -> None:
    described = {re.sub(r"\{\w+\}", "{}", path) for path in document["paths"]}
    for path in addresses():
        assert f"/api/v1/{path}" in described, path


def addresses() -> list[str]:
    below = [each for pattern in get_resolver("api.urls").url_patterns for each in found_below(pattern)]
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
    assert "<script" not in page
    assert "style=" not in page
