"""Who calls: a bearer token, or the session of a browser with its CSRF token."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from statecore.kernel.refusals import PermissionDenied
from statecore.records import token as tokens
from statecore.records.token import Token

from .refusals import NotAuthenticated
from .request import Request

HEADER = "HTTP_AUTHORIZATION"
SCHEME = "bearer"
LONGEST = 200


def identify(request: Request, permission: str = "") -> None:
    """Say in the request whose it is, or refuse it; the permission is the one that will be asked for."""
    token = read(request.META.get(HEADER, ""), permission)
    if token is None:
        _check_session(request)
    else:
        request.user = token.user
    request.auth = token


def read(header: str, permission: str = "") -> Token | None:
    """The token of an Authorization header, None without one; a token that is no good is refused.

    The sentence does not tell a wrong token from one that expired, was revoked or lost its user.
    """
    if not header:
        return None
    text = text_of(header)
    token = tokens.find(text, permission) if text else None
    if token is None:
        raise NotAuthenticated("this token is not valid: `Authorization: Bearer <token>` is expected")
    return token


def text_of(header: str) -> str:
    """The text of a token, empty where there is none that could be one."""
    scheme, _, text = header.partition(" ")
    text = text.strip()
    return text if scheme.lower() == SCHEME and len(text) <= LONGEST else ""


def _check_session(request: Request) -> None:
    """Django's session; every call that could change something also brings the CSRF token."""
    if not request.user.is_active:
        raise NotAuthenticated("authentication is needed: `Authorization: Bearer <token>`")
    check = Csrf(_nothing)
    check.process_request(request)
    if reason := check.process_view(request, _nothing, (), {}):
        raise PermissionDenied(f"CSRF failed: {reason}")


def _nothing(request: HttpRequest) -> HttpResponse:
    """The check wants something to stand before."""
    return HttpResponse()


class Csrf(CsrfViewMiddleware):
    """Django's own check, which tells why not instead of answering with a page."""

    def _reject(self, request: Any, reason: str) -> Any:
        return reason
