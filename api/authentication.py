"""Who calls: a bearer token, or the session of a browser with its CSRF token."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from statecore.records import token as tokens
from statecore.records.token import Token

from .problems import CHALLENGE
from .refusals import NotAuthenticated

SCHEME = "bearer"
LONGEST = 200


class BearerToken(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, Token] | None:
        token = read(request.META.get("HTTP_AUTHORIZATION", ""))
        return (token.user, token) if token else None

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


def read(header: str) -> Token | None:
    """The token of an Authorization header, None without one; a token that is no good is refused.

    The sentence does not tell a wrong token from one that expired, was revoked or lost its user.
    """
    if not header:
        return None
    scheme, _, text = header.partition(" ")
    text = text.strip()
    token = tokens.find(text) if scheme.lower() == SCHEME and 0 < len(text) <= LONGEST else None
    if token is None:
        raise NotAuthenticated("this token is not valid: `Authorization: Bearer <token>` is expected")
    return token


class BrowserSession(SessionAuthentication):
    """Django's session; every call that could change something also brings the CSRF token."""
