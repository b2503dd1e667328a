"""The OpenAPI document, and a page that shows it."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from drf_spectacular.generators import SchemaGenerator

from statecore.api.request import Request
from statecore.api.views import ApiView

from .operation import CALL
from .schemas import list_refusal_classes

CONTENT_TYPE = "application/vnd.oai.openapi+json"


@cache
def build_document() -> dict[str, Any]:
    """Cached, because the machines do not change while a process runs."""
    generator: Any = SchemaGenerator
    return dict(generator().get_schema(request=None, public=True))


class SchemaView(ApiView):
    route, name, schema = "schema/", "api-schema", None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(orjson.dumps(build_document()), content_type=CONTENT_TYPE)


class Docs(ApiView):
    route, name, schema = "docs/", "api-docs", None

    def get(self, request: Request) -> HttpResponse:
        return render(request, "api/docs.html", {"tags": _group_by_tag(), "refusals": _list_refusals()})


def _group_by_tag() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for url, methods in build_document()["paths"].items():
        for method, operation in methods.items():
            call = {"method": method.upper(), "path": url, **operation, "statuses": sorted(operation["responses"])}
            call["client"] = operation.get(CALL, {}).get("name")
            call["paragraphs"] = [mark_code(each) for each in operation.get("description", "").split("\n\n")]
            found.setdefault(operation["tags"][0], []).append(call)
    return found


def mark_code(text: str) -> SafeString:
    """Return HTML in which the words between backticks are code."""
    parts = text.split("`")
    return format_html_join(
        "",
        "{}{}",
        (
            (plain, format_html("<code>{}</code>", code) if code else "")
            for plain, code in zip(parts[::2], [*parts[1::2], ""], strict=False)
        ),
    )


def _list_refusals() -> list[dict[str, Any]]:
    return [
        {"code": kind.code, "status": kind.status, "about": mark_code(kind.__doc__ or "")}
        for kind in list_refusal_classes()
    ]
