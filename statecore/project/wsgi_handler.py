"""The WSGI handler: API requests with a token go straight to the API, all others through Django's handler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

from statecore.api import token_fastpath

from .token_calls import TokenCalls


class Handler:
    def __init__(self) -> None:
        self.django = WSGIHandler()
        self.calls = TokenCalls()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("SCRIPT_NAME") or not token_fastpath.is_token_call(environ):
            return self.django(environ, start_response)
        response = self.calls.respond(WSGIRequest(environ))
        start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
        # A streaming response is closed by the server, after it was sent.
        return response if response.streaming else [response.content]
