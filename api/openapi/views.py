"""The schema itself, and the same as a page to read."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from drf_spectacular.generators import SchemaGenerator

from api.request import Request
from api.views import ApiView

from .schemas import refusal_classes

CONTENT_TYPE = "application/vnd.oai.openapi+json"


@cache
def document() -> dict[str, Any]:
    """Made once: the machines do not change while a process lives."""
    generator: Any = SchemaGenerator
    return dict(generator().get_schema(request=None, public=True))


class SchemaView(ApiView):
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(orjson.dumps(document()), content_type=CONTENT_TYPE)


class Docs(ApiView):
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return render(request, "api/docs.html", {"tags": _by_tag(), "refusals": _refusals()})


def _by_tag() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for address, methods in document()["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            call = {"method": method.upper(), "path": address, **operation, "body": _pretty(body) if body else ""}
            call["statuses"] = sorted(operation["responses"])
            found.setdefault(operation["tags"][0], []).append(call)
    return found


def _pretty(schema: dict[str, Any]) -> str:
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()


def _refusals() -> list[dict[str, Any]]:
    return [{"code": kind.code, "status": kind.status, "about": kind.__doc__ or ""} for kind in refusal_classes()]


urlpatterns = [
    path("schema/", SchemaView.as_view(), name="api-schema"),
    path("docs/", Docs.as_view(), name="api-docs"),
]
