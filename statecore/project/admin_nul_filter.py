"""Answers 400 to admin URLs that contain a NUL character."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

ADMIN, NUL = "/admin/", "\0"


class AdminNulFilter(MiddlewareMixin):
    """The admin passes query parameters to the database unchecked, and PostgreSQL fails on NUL with an error 500.

    The console and the API check their parameters themselves.
    """

    def process_request(self, request: HttpRequest) -> None:
        if request.path.startswith(ADMIN) and _has_nul(request):
            raise BadRequest("the URL contains a NUL character")


def _has_nul(request: HttpRequest) -> bool:
    words = (word for name, values in request.GET.lists() for word in (name, *values))
    return NUL in request.path or any(NUL in word for word in words)
