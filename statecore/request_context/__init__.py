"""The id, entity and actor of a request, for its log lines, its response and its trace.

Signals of the logging middleware call this for console requests; the API calls it directly for token requests.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, get_contextvars

from ..kernel import registry
from ..kernel.ids import ID_PATTERN
from ..records.token import Token
from .traces import NotInstalled, traces

__all__ = ["HEADER", "NotInstalled", "begin_request", "describe_actor", "end_request", "find_entity", "traces"]

HEADER = "X-Request-ID"
TRACED = ("request_id", "entity_type", "entity_id")
ENTITY_PATH = re.compile(rf"/(?:api/v1/)?(?P<collection>[a-z-]+)/(?P<id>{ID_PATTERN.pattern})/")
NOT_IDS = {"submit", "bulk-transitions"}


def begin_request(request: HttpRequest) -> None:
    """Adds the request's id, entity and trace to every log line that follows."""
    context: dict[str, Any] = {
        "request_id": get_contextvars().get("request_id") or str(uuid4()),
        **find_entity(request.path),
    }
    if traces.tracer is not None:
        context["trace_id"] = traces.begin(request)
    bind_contextvars(**context)


def end_request(request: HttpRequest, response: HttpResponse) -> None:
    """Returns the request id in a header, so that a caller can quote it, and ends the trace."""
    context = get_contextvars()
    response.headers[HEADER] = str(context.get("request_id", ""))
    if traces.tracer is not None:
        traced = {name: str(context[name]) for name in TRACED if name in context}
        traces.end(request, response, traced | describe_actor(request))


def describe_actor(request: HttpRequest) -> dict[str, str]:
    """The name under which the journal records the caller, and how the caller authenticated."""
    auth = getattr(request, "auth", None)
    if isinstance(auth, Token):
        return {"actor": auth.actor().name, "by": f"token {auth.name}"}
    user = getattr(request, "user", None)
    return {"actor": user.get_username(), "by": "session"} if user is not None and user.is_authenticated else {}


def find_entity(path: str) -> dict[str, str]:
    """The entity that a path names. Not read from the resolved URL, so that log lines of a 404 have it too."""
    found = ENTITY_PATH.match(path)
    if found is None or found["id"] in NOT_IDS:
        return {}
    entity_type = _entity_types().get(found["collection"])
    return {"entity_type": entity_type, "entity_id": found["id"]} if entity_type else {}


@cache
def _entity_types() -> dict[str, str]:
    return {flow.collection: flow.entity_type for flow in registry.flows()}
