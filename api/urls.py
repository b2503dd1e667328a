"""The routes of the API, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from django.urls import URLPattern, URLResolver, path, re_path
from django.urls.resolvers import RoutePattern

from statecore.kernel import extensions

from . import (
    agents,
    approvals,
    artifacts,
    bulk,
    claims,
    collections,
    heartbeat,
    holds,
    logs,
    operators,
    records,
    schedules,
    service_accounts,
    templates,
    webhooks,
)  # fmt: skip
from .monitoring import board, incidents, journal, machines, proofs, trends
from .openapi import views as openapi
from .views import ApiView, UnknownUrl


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


def collect_routes(module: ModuleType) -> list[URLPattern]:
    """Return the routes of the views that a module defines."""
    views = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, ApiView)]
    own = [each for each in views if each.__module__ == module.__name__ and "route" in vars(each)]
    return [path(each.route, each.as_view(), name=each.name or None) for each in own]


# These come before the generic routes of the machines, where an id matches any segment.
SPECIFIC = [
    openapi, agents, claims, heartbeat, artifacts, logs, approvals, holds, schedules, templates, operators, records,
    service_accounts, webhooks, bulk, board, incidents, journal, machines, proofs, trends,
]  # fmt: skip

urlpatterns: list[URLPattern | URLResolver] = [
    *group_by_prefix(
        [
            *(each for module in SPECIFIC for each in collect_routes(module)),
            *extensions.api_routes,
            *collections.routes(),
        ]
    ),
    re_path("", UnknownUrl.as_view()),
]
