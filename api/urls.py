"""The routes of the API, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable

from django.urls import URLPattern, URLResolver, include, path, re_path

from . import agents, approvals, artifacts, bulk, collections, holds, operators, records
from .monitoring import urls as monitoring
from .openapi import views as openapi
from .views import UnknownUrl


def group_by_prefix(patterns: Iterable[URLPattern]) -> list[URLResolver]:
    """Group the routes by their first segment, so that a request is compared with few of them."""
    groups: dict[str, list[URLPattern]] = {}
    for each in patterns:
        prefix, slash, rest = str(each.pattern).partition("/")
        groups.setdefault(prefix + slash, []).append(path(rest, each.callback, name=each.name))
    return [path(prefix, include(group)) for prefix, group in groups.items()]


# These come before the generic routes of the machines, where an id matches any segment.
SPECIFIC = [openapi, agents, artifacts, approvals, holds, operators, records, bulk, monitoring]

urlpatterns: list[URLPattern | URLResolver] = [
    *group_by_prefix([*(each for module in SPECIFIC for each in module.urlpatterns), *collections.routes()]),
    re_path("", UnknownUrl.as_view()),
]
