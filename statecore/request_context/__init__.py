"""The id, entity and actor of a request, for its log lines, its response, its trace and the metrics.

A middleware calls this for pages; the API calls it directly for requests with a token.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from time import perf_counter
from typing import Any
from uuid import uuid4

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from ..kernel import registry
from ..kernel.ids import ID_PATTERN
from ..records.token import Token
from ..storage import statement_metrics
from .request_metrics import count_request, get_route
from .traces import NotInstalled, traces

__all__ = [
    "HEADER", "NotInstalled", "begin_request", "describe_actor", "end_request", "find_entity", "keep_failure", "traces",
]  # fmt: skip

log = structlog.get_logger(__name__)

HEADER = "X-Request-ID"
BEGUN, FAILURE = "_statecore_begun", "_statecore_failure"
PROBES = {"healthz", "readyz", "metrics"}
HEARTBEAT = "heartbeat/"
TRACED = ("request_id", "entity_type", "entity_id")
ENTITY_PATH = re.compile(rf"/(?:api/v1/)?(?P<collection>[a-z-]+)/(?P<id>{ID_PATTERN.pattern})/")
NOT_IDS = {"submit", "bulk-transitions"}


def begin_request(request: HttpRequest) -> None:
    """Adds the request's id, entity and trace to every log line that follows."""
    clear_contextvars()
    setattr(request, BEGUN, (perf_counter(), statement_metrics.collect()))
    context: dict[str, Any] = {"request_id": str(uuid4()), **find_entity(request.path)}
    if traces.tracer is not None:
        context["trace_id"] = traces.begin(request)
    bind_contextvars(**context)


def end_request(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Returns the response with the request id, which a caller can quote; ends the trace, counts and logs."""
    begun, statements = getattr(request, BEGUN)
    seconds = perf_counter() - begun
    context = get_contextvars()
    response.headers[HEADER] = str(context["request_id"])
    if traces.tracer is not None:
        traced = {name: str(context[name]) for name in TRACED if name in context}
        traces.end(request, response, traced | describe_actor(request))
    count_request(request, response.status_code, seconds, statements)
    _log_request(request, response, seconds)
    clear_contextvars()
    return response


def keep_failure(request: HttpRequest, failure: Any) -> None:
    """Remembers an exception for the line of its request."""
    setattr(request, FAILURE, failure)


def _log_request(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    level = logging.ERROR if response.status_code >= 500 else logging.INFO
    if not log.isEnabledFor(level) or _is_routine(request, response.status_code):
        return
    log.log(
        level,
        "request",
        request=f"{request.method} {request.path}",
        code=response.status_code,
        duration_ms=round(seconds * 1000, 1),
        **describe_actor(request),
        **({"exc_info": failure} if (failure := getattr(request, FAILURE, None)) else {}),
    )


def _is_routine(request: HttpRequest, code: int) -> bool:
    """Whether this is a probe or a heartbeat, most of all requests, and did not fail; `/readyz` logs its reasons."""
    if request.resolver_match is None or settings.STATECORE_LOG_ROUTINE_REQUESTS:
        return False
    if request.resolver_match.url_name in PROBES:
        return code != 500
    return code < 400 and get_route(request).endswith(HEARTBEAT)


def describe_actor(request: HttpRequest) -> dict[str, str]:
    """The name under which the journal records the caller, and how the caller authenticated."""
    auth = getattr(request, "auth", None)
    if isinstance(auth, Token):
        return {"actor": auth.actor().name, "by": f"token {auth.name}"}
    # Django's cache of `request.user`: reading the user here would query the database for pages that need none.
    user = getattr(request, "_cached_user", None)
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
