"""Reading what stands behind the question mark of an address; what makes no sense is as if it were not there."""

from __future__ import annotations

from datetime import UTC, datetime

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

LONGEST = 500


def number(request: HttpRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 18 else None


def text(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").replace("\x00", "").strip()[:LONGEST]


def moment(request: HttpRequest, name: str) -> datetime | None:
    """As a browser's field for a time writes it; without a zone it is UTC."""
    try:
        given = datetime.fromisoformat(request.GET.get(name, ""))
        return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def onward(request: HttpRequest, otherwise: str | None = None) -> str:
    """Where `next` leads, if that is a place of ours; else to the overview."""
    wanted = request.POST.get("next", request.GET.get("next", ""))
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return reverse("console:overview") if otherwise is None else otherwise
