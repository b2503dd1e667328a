"""A REST call without a declaration: the pages are not written, and the message names the method."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from types import ModuleType
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import include, path
from rest_framework.response import Response

from statecore.api.openapi.operation import operation, query
from statecore.api.openapi.schemas import COUNT, STRING, obj
from statecore.api.openapi.views import build_document
from statecore.api.views import ApiView
from statecore.devtools import reference


class Bare(ApiView):
    def get(self, request: Any) -> Response:
        return Response({})


class Declared(ApiView):
    @operation("Count the moons", {200: obj({"moons": COUNT})}, params=[query("planet", STRING)])
    def get(self, request: Any) -> Response:
        return Response({})


@pytest.fixture
def serve(settings: Any) -> Iterator[Any]:
    """Adds a view to the addresses of the project."""

    def add(view: type[ApiView]) -> None:
        addresses = ModuleType("addresses")
        addresses.urlpatterns = [  # type: ignore[attr-defined]
            path("api/v1/moons/", view.as_view()),
            path("", include("statecore.project.urls")),
        ]
        settings.ROOT_URLCONF = addresses

    build_document.cache_clear()
    yield add
    build_document.cache_clear()


@pytest.mark.parametrize("option", ["--docs", "--check"])
def test_a_call_without_a_declaration_is_named_with_what_to_add(serve: Any, option: str) -> None:
    serve(Bare)

    with pytest.raises(CommandError) as refused:
        call_command("machines", option, stdout=StringIO())

    assert str(refused.value) == (
        f"GET /api/v1/moons is not declared: decorate {Bare.__module__}.Bare.get with @operation"
    )


def test_the_schema_is_served_all_the_same(serve: Any) -> None:
    serve(Bare)

    assert "/api/v1/moons" in build_document()["paths"]


def test_the_declaration_of_a_call_is_its_description(serve: Any) -> None:
    serve(Declared)

    call = build_document()["paths"]["/api/v1/moons"]["get"]
    assert [each["name"] for each in call["parameters"]] == ["planet"]
    assert "| `GET /api/v1/moons` | Count the moons |" in reference.render_documents()["docs/reference/rest.md"]
