"""Calls of the API with a token go straight to the API, under WSGI and ASGI; all others go through Django's handlers.

Django's signals and middleware take as long as a heartbeat itself. Of them, API clients only need the headers of the
security middleware and the release of the database connection.
"""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware

from statecore.api import token_fastpath


class TokenCalls:
    def __init__(self) -> None:
        self.security = SecurityMiddleware(_empty_response)

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Return the response; the thread's database connection is released."""
        try:
            response = self.security.process_request(request) or token_fastpath.respond(request)
            self.security.process_response(request, response)
        finally:
            connections[DEFAULT_DB_ALIAS].close_if_unusable_or_obsolete()
        return response


def _empty_response(request: HttpRequest) -> HttpResponse:
    """The next handler that the middleware's constructor requires; it is never called."""
    return HttpResponse()
