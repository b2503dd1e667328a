"""What Django answers outside a view of the API: in JSON below the API's address, as a page elsewhere."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from statecore.kernel.refusals import Invalid, NotFound, PermissionDenied

from .problems import BASE, problem
from .refusals import InternalError


def _is_ours(request: HttpRequest) -> bool:
    return request.path_info.startswith(BASE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_ours(request):
        return problem(Invalid({"request": [str(exception) or "is not one this server takes."]}))
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_ours(request):
        return problem(PermissionDenied(str(exception) or "you may not do this"))
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_ours(request):
        return problem(NotFound("there is nothing at this address"))
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest, *args: Any) -> HttpResponse:
    if _is_ours(request):
        return problem(InternalError("something went wrong here; it was written to the log"))
    return defaults.server_error(request)
