"""Adds pages of another package to the console. Call `add_page` in `ready()` of its AppConfig."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import path

from ..dashboard.permissions import get_actor, require_permission
from ..dashboard.rendering import render
from ..kernel import extensions


def add_page(route: str, view: Callable[..., HttpResponse], *, name: str, title: str, permission: str) -> None:
    """Adds a page to the console and to its navigation. The view itself has to require the permission."""
    extensions.pages.append(extensions.Page(path(route, view, name=name), title, permission))


__all__ = [
    "HttpRequest", "HttpResponse", "add_page", "get_actor", "render", "require_permission",
]  # fmt: skip
