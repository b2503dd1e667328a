"""Programs go straight to the view they call; what the other middleware does is for browsers.

Who brings a token has no session and no form, sees no page and logs in nowhere. Left out for them are sessions, CSRF,
messages, lockouts, the look for files and the making of a policy for each page: together more work than a change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.urls import ResolverMatch, resolve
from structlog.contextvars import clear_contextvars

from statecore import observing

from .authentication import HEADER
from .problems import as_refusal, problem

BASE = "/api/v1/"
# Nothing that is told here is a page.
HEADERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Frame-Options": "DENY"}

log = structlog.get_logger(__name__)


class Programs:
    sync_capable = async_capable = True

    def __init__(self, others: Callable[[HttpRequest], Any]) -> None:
        self.others = others
        self.is_async = iscoroutinefunction(others)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if not is_called_by(request.META):
            return self.others(request)
        return sync_to_async(answer)(request) if self.is_async else answer(request)


def is_called_by(asked: Mapping[str, Any]) -> bool:
    """Whether a program makes this call: it brings a token, and wants the API."""
    return HEADER in asked and str(asked["PATH_INFO"]).startswith(BASE)


def answer(request: HttpRequest) -> HttpResponse:
    """One line in the log for each call, with a number that stands beside everything the call itself logs."""
    observing.begin(request)
    try:
        response = _called(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers["Content-Length"] = str(len(response.content))
        observing.answered(request, response)
        _log(request, response)
    finally:
        clear_contextvars()
    return response


def _log(request: HttpRequest, response: HttpResponse) -> None:
    """What is put together for a line that nobody wants would cost as much as the line."""
    if log.isEnabledFor(logging.INFO):
        call = f"{request.method} {request.path}"
        log.info("called", call=call, code=response.status_code, **observing.actor_of(request))


def _called(request: HttpRequest) -> HttpResponse:
    try:
        request.get_host()
    except DisallowedHost as error:
        return problem(as_refusal(error))
    found = _resolved(request.path_info)
    request.resolver_match = found
    response: HttpResponse = found.func(request, *found.args, **found.kwargs)
    return response


# Most calls are about one entity, `/api/v1/C/id/call/`, and lead to the same view whatever the id: by C and call.
_of_entities: dict[tuple[str, str], ResolverMatch] = {}


def _resolved(path: str) -> ResolverMatch:
    """As Django resolves it, which takes as long as a statement, so once for each kind of call."""
    words = path.split("/")
    if len(words) != 7 or not words[4] or words[6]:
        return resolve(path)
    kind, entity_id = (words[3], words[5]), words[4]
    known = _of_entities.get(kind)
    if known is None:
        found = resolve(path)
        if list(found.kwargs.values()) == [entity_id]:
            _of_entities[kind] = found
        return found
    given = dict.fromkeys(known.kwargs, entity_id)
    return ResolverMatch(known.func, (), given, known.url_name, route=known.route)
