"""Adds REST calls of another package. Call `add_call` in `ready()` of its AppConfig."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import path

from ..api.access import actor_of
from ..api.request import Request
from ..api.request_body import Body, RequestBody
from ..api.responses import json_response
from ..api.views import ApiView
from ..kernel import extensions


def add_call(route: str, view: type[ApiView], *, name: str) -> None:
    """Serves a view below /api/v1/; the OpenAPI document describes it by the docstrings of its methods."""
    extensions.api_routes.append(path(route, view.as_view(), name=name))


__all__ = [
    "ApiView", "Body", "HttpResponse", "Request", "RequestBody", "actor_of", "add_call", "json_response",
]  # fmt: skip
