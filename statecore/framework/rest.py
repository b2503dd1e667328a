"""Adds REST calls of another package. Call `add_call` in `ready()` of its AppConfig."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import path

from ..api.access import actor_of
from ..api.openapi.operation import operation, query
from ..api.openapi.schemas import array, obj
from ..api.request import Request
from ..api.request_body import Body, RequestBody
from ..api.responses import json_response
from ..api.views import ApiView
from ..kernel import extensions


def add_call(view: type[ApiView]) -> None:
    """Serves a view below /api/v1/ at its `route`; its methods declare their calls with `operation`."""
    extensions.api_routes.append(path(view.route, view.as_view(), name=view.name or None))


__all__ = [
    "ApiView", "Body", "HttpResponse", "Request", "RequestBody", "actor_of", "add_call", "array", "json_response",
    "obj", "operation", "query",
]  # fmt: skip
