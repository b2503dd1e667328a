"""An address in the admin with a character that no database keeps is a bad request, not an error of ours."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

ADMIN, NUL = "/admin/", "\0"


class AdminAddresses(MiddlewareMixin):
    """The admin hands what stands behind the question mark to the database as it is; the console and the API look."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path.startswith(ADMIN) and _has_nul(request):
            raise BadRequest("the address holds a character that stands for nothing")


def _has_nul(request: HttpRequest) -> bool:
    asked = (word for name, values in request.GET.lists() for word in (name, *values))
    return NUL in request.path or any(NUL in word for word in asked)
