"""Reading query parameters; values that make no sense are treated as missing."""

from __future__ import annotations

from datetime import UTC, datetime

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from statecore.dashboard.queries import search

MAX_LENGTH = search.MAX_LENGTH


def get_number(request: HttpRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 18 else None


def get_text(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").replace("\x00", "").strip()[:MAX_LENGTH]


def get_time(request: HttpRequest, name: str) -> datetime | None:
    """In the format of a browser's datetime field; UTC when it has no zone."""
    try:
        given = datetime.fromisoformat(request.GET.get(name, ""))
        return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def get_next_url(request: HttpRequest, default: str | None = None) -> str:
    """The `next` parameter if it points to this site, otherwise the default or the overview."""
    wanted = request.POST.get("next", request.GET.get("next", ""))
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return reverse("console:overview") if default is None else default
