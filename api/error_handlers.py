"""Django's error handlers: problem+json below the API's path, a page elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import defaults

from statecore.kernel.refusals import Invalid, NotFound, PermissionDenied, Refusal

from .refusals import InternalError
from .responses import BASE, as_database_refusal, problem


def _is_api_call(request: HttpRequest) -> bool:
    return request.path_info.startswith(BASE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api_call(request):
        return problem(Invalid({"request": [str(exception) or "was rejected."]}))
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api_call(request):
        return problem(PermissionDenied(str(exception) or "you may not do this"))
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api_call(request):
        return problem(NotFound("no such URL"))
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest, *args: Any) -> HttpResponse:
    """Django calls this while it handles the exception, of which a page has the reason if the database failed."""
    error = sys.exception()
    refusal = as_database_refusal(error) if error else None
    if _is_api_call(request):
        return problem(refusal or InternalError("internal error; the log has the details"))
    return defaults.server_error(request) if refusal is None else _render_unavailable(request, refusal)


def _render_unavailable(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    sentence = f"{refusal.detail[:1].upper()}{refusal.detail[1:]}."
    if request.headers.get("HX-Request") == "true":  # the page shows the text in place of its part
        response = HttpResponse(sentence, content_type="text/plain", status=refusal.status)
    else:
        # Without the request: its context processors read the database.
        response = render(None, "500.html", {"exception": sentence}, status=refusal.status)
    response["Retry-After"] = str(refusal.facts["retry_after"])
    return response
