"""The WSGI handler: API requests with a token go straight to the API, all others through Django's handler.

Django's signals and middleware take as long as a heartbeat itself. Of them, API clients only need the headers of the
security middleware and the release of the database connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware

from statecore.api import token_fastpath


class Handler:
    def __init__(self) -> None:
        self.django = WSGIHandler()
        self.security = SecurityMiddleware(_empty_response)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("SCRIPT_NAME") or not token_fastpath.is_token_call(environ):
            return self.django(environ, start_response)
        try:
            response = self._respond(WSGIRequest(environ))
        finally:
            connections[DEFAULT_DB_ALIAS].close_if_unusable_or_obsolete()
        start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
        # A streaming response is closed by the server, after it was sent.
        return response if response.streaming else [response.content]

    def _respond(self, request: WSGIRequest) -> HttpResponse:
        response = self.security.process_request(request) or token_fastpath.respond(request)
        self.security.process_response(request, response)
        return response


def _empty_response(request: HttpRequest) -> HttpResponse:
    """The next handler that the middleware's constructor requires; it is never called."""
    return HttpResponse()
