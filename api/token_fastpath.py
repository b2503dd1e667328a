"""API calls with a token skip the middleware that only browsers need.

They need no session, CSRF check, messages, login lockout, static files or per-page content security policy, which
together cost more than a transition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.urls import ResolverMatch, resolve

from statecore import request_context

from .access import HEADER
from .responses import as_refusal, problem

BASE = "/api/v1/"
# API responses are never pages.
HEADERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Frame-Options": "DENY"}


class TokenFastPath:
    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if not is_token_call(request.META):
            return self.get_response(request)
        return sync_to_async(respond)(request) if self.is_async else respond(request)


def is_token_call(meta: Mapping[str, Any]) -> bool:
    """Whether a request calls the API with an Authorization header."""
    return HEADER in meta and str(meta["PATH_INFO"]).startswith(BASE)


def respond(request: HttpRequest) -> HttpResponse:
    """Call the view; the log gets one line with the request id, which every line logged by the call also has."""
    request_context.begin_request(request)
    response = _call_view(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if not response.streaming:
        response.headers.setdefault("Content-Length", str(len(response.content)))
    return request_context.end_request(request, response)


def _call_view(request: HttpRequest) -> HttpResponse:
    try:
        request.get_host()
    except DisallowedHost as error:
        return problem(as_refusal(error))
    found = _resolve(request.path_info)
    request.resolver_match = found
    response: HttpResponse = found.func(request, *found.args, **found.kwargs)
    return response


# Views of `/api/v1/{collection}/{id}/{call}/` by collection and call: they do not depend on the id.
_entity_views: dict[tuple[str, str], ResolverMatch] = {}


def _resolve(path: str) -> ResolverMatch:
    """Resolve a path, with a cache: Django's resolver takes as long as an SQL statement."""
    words = path.split("/")
    if len(words) != 7 or not words[4] or words[6]:
        return resolve(path)
    kind, entity_id = (words[3], words[5]), words[4]
    known = _entity_views.get(kind)
    if known is None:
        found = resolve(path)
        if list(found.kwargs.values()) == [entity_id]:
            _entity_views[kind] = found
        return found
    given = dict.fromkeys(known.kwargs, entity_id)
    return ResolverMatch(known.func, (), given, known.url_name, route=known.route)
