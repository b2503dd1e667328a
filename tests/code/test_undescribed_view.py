"""A REST view without a description: its docstring is its summary, and without one the pages are not written."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from types import ModuleType
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import include, path
from rest_framework.response import Response

from statecore.api.openapi.views import build_document
from statecore.api.views import ApiView
from statecore.devtools import reference


class Bare(ApiView):
    def get(self, request: Any) -> Response:
        return Response({})


class OfItsClass(ApiView):
    """Lists the moons.

    More about moons.
    """

    def get(self, request: Any) -> Response:
        return Response({})


class OfItsMethod(OfItsClass):
    def get(self, request: Any) -> Response:
        """Counts the moons."""
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
def test_a_view_without_a_docstring_is_named_with_what_to_add(serve: Any, option: str) -> None:
    serve(Bare)

    with pytest.raises(CommandError) as refused:
        call_command("machines", option, stdout=StringIO())

    assert str(refused.value) == (
        f"GET /api/v1/moons has no summary: give {Bare.__module__}.Bare or its method get a docstring, "
        "or describe the view in api/openapi/operations.py"
    )


def test_the_schema_is_served_all_the_same(serve: Any) -> None:
    serve(Bare)

    assert "/api/v1/moons" in build_document()["paths"]


@pytest.mark.parametrize(("view", "summary"), [(OfItsClass, "Lists the moons"), (OfItsMethod, "Counts the moons")])
def test_the_first_line_of_the_docstring_is_the_summary(serve: Any, view: type[ApiView], summary: str) -> None:
    serve(view)

    assert f"| `GET /api/v1/moons` | {summary} |" in reference.render_documents()["docs/reference/rest.md"]
