"""Django's error handlers: problem+json below the API's path, a page elsewhere."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from statecore.kernel.refusals import Invalid, NotFound, PermissionDenied

from .refusals import InternalError
from .responses import BASE, problem


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
    if _is_api_call(request):
        return problem(InternalError("internal error; the log has the details"))
    return defaults.server_error(request)
