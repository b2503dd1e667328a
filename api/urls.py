"""The routes of the API, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.urls import URLPattern, URLResolver, re_path
from django.urls.resolvers import RoutePattern

from . import agents, approvals, artifacts, bulk, collections, holds, logs, operators, records, schedules, webhooks
from .monitoring import urls as monitoring
from .openapi import views as openapi
from .views import UnknownUrl


class Route(RoutePattern):
    """A route whose final slash callers may omit, as many HTTP clients and style guides do."""

    def match(self, path: str) -> Any:
        is_complete = not path or path.endswith("/") or not str(self).endswith("/")
        return super().match(path if is_complete else f"{path}/")


class Prefix(RoutePattern):
    """The first segment of a path; it is all of the path for a list whose final slash is omitted."""

    def match(self, path: str) -> Any:
        return super().match(path if "/" in path else f"{path}/")


def group_by_prefix(patterns: Iterable[URLPattern]) -> list[URLResolver]:
    """Group the routes by their first segment, so that a request is compared with few of them."""
    groups: dict[str, list[URLPattern]] = {}
    for each in patterns:
        prefix, slash, rest = str(each.pattern).partition("/")
        route = Route(rest, name=each.name, is_endpoint=True)
        groups.setdefault(prefix + slash, []).append(URLPattern(route, each.callback, name=each.name))
    return [URLResolver(Prefix(prefix, is_endpoint=False), group) for prefix, group in groups.items()]


# These come before the generic routes of the machines, where an id matches any segment.
SPECIFIC = [
    openapi, agents, artifacts, logs, approvals, holds, schedules, operators, records, webhooks, bulk, monitoring,
]  # fmt: skip

urlpatterns: list[URLPattern | URLResolver] = [
    *group_by_prefix([*(each for module in SPECIFIC for each in module.urlpatterns), *collections.routes()]),
    re_path("", UnknownUrl.as_view()),
]
