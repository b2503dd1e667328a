"""What is known of a request: its id, which entity it is about, who asked. For the log, the answer and the trace.

The console's requests come here through signals of the logging middleware, those of programs straight from the API.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, get_contextvars

from ..records.token import Token
from .entity import entity_of
from .traces import NotInstalled, traces

__all__ = ["HEADER", "NotInstalled", "actor_of", "answered", "begin", "entity_of", "traces"]

HEADER = "X-Request-ID"
TOLD = ("request_id", "entity_type", "entity_id")


def begin(request: HttpRequest) -> None:
    """From here on every line of the log says what it belongs to."""
    known: dict[str, Any] = {
        "request_id": get_contextvars().get("request_id") or str(uuid4()),
        **entity_of(request.path),
    }
    if trace_id := traces.begin(request):
        known["trace_id"] = trace_id
    bind_contextvars(**known)


def answered(request: HttpRequest, response: HttpResponse) -> None:
    """The id goes back with the answer, so that somebody who was refused can name the lines."""
    known = get_contextvars()
    response.headers[HEADER] = str(known.get("request_id", ""))
    if traces.are_on:
        traces.end(request, response, {name: str(known[name]) for name in TOLD if name in known} | actor_of(request))


def actor_of(request: HttpRequest) -> dict[str, str]:
    """As the journal names them: a token of an agent by its own name, others by their user's."""
    auth = getattr(request, "auth", None)
    if isinstance(auth, Token):
        return {"actor": auth.actor().name, "by": f"token {auth.name}"}
    user = getattr(request, "user", None)
    return {"actor": user.get_username(), "by": "session"} if user is not None and user.is_authenticated else {}
