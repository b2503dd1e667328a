"""What the WSGI server calls: a program's call goes straight to the API, everything else the way of Django.

Signals, the middleware and what is set up around them for each request cost as much as a heartbeat. A program needs of
it the headers of Django's security middleware, and that its connection to the database is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware

from api import programs


class Handler:
    def __init__(self) -> None:
        self.others = WSGIHandler()
        self.security = SecurityMiddleware(_nothing)

    def __call__(self, asked: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if asked.get("SCRIPT_NAME") or not programs.is_called_by(asked):
            return self.others(asked, start_response)
        try:
            response = self._answered(WSGIRequest(asked))
        finally:
            connections[DEFAULT_DB_ALIAS].close_if_unusable_or_obsolete()
        start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
        return [response.content]

    def _answered(self, request: WSGIRequest) -> HttpResponse:
        response = self.security.process_request(request) or programs.answer(request)
        self.security.process_response(request, response)
        return response


def _nothing(request: HttpRequest) -> HttpResponse:
    """The security middleware wants something to stand before."""
    return HttpResponse()
