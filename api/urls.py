"""The addresses of the API, in the order they are tried."""

from __future__ import annotations

from collections.abc import Iterable

from django.urls import URLPattern, URLResolver, include, path, re_path

from . import agents, bulk, collections, operators, records
from .openapi import views as openapi
from .screens import urls as screens
from .views import NothingHere


def by_first_word(patterns: Iterable[URLPattern]) -> list[URLResolver]:
    """A request is compared with the first word of all addresses and with the rest of a few, not with all of them."""
    groups: dict[str, list[URLPattern]] = {}
    for each in patterns:
        word, slash, rest = str(each.pattern).partition("/")
        groups.setdefault(word + slash, []).append(path(rest, each.callback, name=each.name))
    return [path(word, include(group)) for word, group in groups.items()]


# What a machine has beside the calls of every machine comes before them: an id may be any word.
OWN = [openapi, agents, operators, records, bulk, screens]

urlpatterns: list[URLPattern | URLResolver] = [
    *by_first_word([*(each for module in OWN for each in module.urlpatterns), *collections.addresses()]),
    # Last: whatever no other one has.
    re_path("", NothingHere.as_view()),
]
