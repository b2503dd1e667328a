"""Who is at the other end of something that stays open, and whether that still holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user

from statecore import sessions
from statecore.kernel.clock import now
from statecore.kernel.refusals import PermissionDenied
from statecore.records.token import Scope as TokenScope
from statecore.records.token import Token

from .. import authentication, throttling
from ..permissions import require, seen_by
from ..refusals import NotAuthenticated
from .asgi import Scope, header

BEARER = "bearer"  # the subprotocol a browser names before its token, for it cannot set a header


@dataclass(frozen=True, slots=True)
class Visitor:
    """By token or by session; one of the two is given. `seen` are the machines it may be told of."""

    token: int | None = None
    session: str = ""
    seen: frozenset[str] = frozenset()
    permission: str = ""  # without which it may not stay


def admit(scope: Scope, permission: str = "") -> Visitor:
    """Asks the database, and counts as a call. Never a token from the address: addresses are logged."""
    authorization = header(scope, b"authorization") or _from_subprotocols(scope)
    token = authentication.read(authorization)
    if token is not None:
        require(token, TokenScope.READ)
        throttling.count(token)
        return Visitor(token=token.pk, seen=_seen(token.user, permission), permission=permission)
    session = _session_key(scope)
    # A socket without an Origin was not opened by a browser, so the cookie is not a browser's either.
    if session and (scope["type"] == "http" or header(scope, b"origin")) and (user := _logged_in(session)):
        throttling.count(user)
        return Visitor(session=session, seen=_seen(user, permission), permission=permission)
    raise NotAuthenticated("authentication is needed: `Authorization: Bearer <token>`, or a session")


def _from_subprotocols(scope: Scope) -> str:
    named = scope.get("subprotocols") or []
    return f"Bearer {named[1]}" if len(named) == 2 and named[0] == BEARER else ""


def _session_key(scope: Scope) -> str:
    try:
        cookies = SimpleCookie(header(scope, b"cookie"))
    except CookieError:
        return ""
    found = cookies.get(settings.SESSION_COOKIE_NAME)
    return found.value if found else ""


def _seen(user: Any, permission: str) -> frozenset[str]:
    if permission and not user.has_perm(permission):
        raise PermissionDenied(f"{user.get_username()} lacks {permission}", required=permission)
    return frozenset(flow.entity_type for flow in seen_by(user.has_perm))


def _logged_in(session_key: str) -> Any:
    """Django's own way: the session is there and not over, its user is active and has the same password.

    And has shown a second factor, where that is required by now.
    """
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request: Any = SimpleNamespace(session=store)
    user = get_user(request)
    return user if user.is_authenticated and not sessions.lacks_the_second_factor(user, store) else None


def gone(visitors: Iterable[Visitor]) -> set[Visitor]:
    """Those who may not stay: revoked, expired, logged out, no longer active, or with fewer machines to see."""
    visitors, at = set(visitors), now()
    named = [visitor.token for visitor in visitors if visitor.token is not None]
    tokens = Token.objects.filter(pk__in=named).select_related("user")
    owners = {token.pk: token.user for token in tokens if token.is_good(at)}

    def user_of(visitor: Visitor) -> Any:
        return owners.get(visitor.token) if visitor.token is not None else _logged_in(visitor.session)

    return {visitor for visitor in visitors if not _still_sees(visitor, user_of(visitor))}


def _still_sees(visitor: Visitor, user: Any) -> bool:
    try:
        return user is not None and visitor.seen <= _seen(user, visitor.permission)
    except PermissionDenied:
        return False
