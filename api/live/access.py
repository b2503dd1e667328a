"""Access to streams and WebSockets: the host, the origin and the caller, checked before and while they are open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.http.request import split_domain_port, validate_host

from statecore import sessions
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid, PermissionDenied
from statecore.records.token import Scope as TokenScope
from statecore.records.token import Token

from .. import throttling
from ..access import machines_visible_to, read_token, require_scope
from ..refusals import NotAuthenticated
from .asgi import Scope, read_header

# The WebSocket subprotocol that a browser sends before its token, because it cannot set a header.
BEARER = "bearer"


def check_host(scope: Scope) -> None:
    host = read_header(scope, b"host")
    domain, _port = split_domain_port(host)
    allowed = settings.ALLOWED_HOSTS or [".localhost", "127.0.0.1", "[::1]"]
    if not domain or not validate_host(domain, allowed):
        raise Invalid({"host": ["is not a host of this server."]})


def check_origin(scope: Scope) -> None:
    """Refuse pages of other origins, because a browser sends the session cookie for any page.

    Clients other than browsers send no Origin.
    """
    origin = read_header(scope, b"origin")
    if not origin or origin in settings.CSRF_TRUSTED_ORIGINS:
        return
    if _parse_host(origin) != read_header(scope, b"host").lower():
        raise PermissionDenied("pages of this origin may not open a WebSocket here", required="origin")


def _parse_host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # unbalanced brackets
        return None


@dataclass(frozen=True, slots=True)
class Caller:
    """The account and the token or session that opened a connection, and the machines that it may see."""

    account: int
    token: int | None = None
    session: str = ""
    visible: frozenset[str] = frozenset()
    permission: str = ""  # required as long as the connection is open


def authenticate(scope: Scope, permission: str = "") -> Caller:
    """Return the caller of a stream or WebSocket and count the call; raises NotAuthenticated or PermissionDenied."""
    token, session, user = find_caller(scope)
    if token is not None:
        require_scope(token, TokenScope.READ)
    throttling.count(token or user)
    visible = _list_visible_types(user, permission)
    token_id = None if token is None else token.pk
    return Caller(user.pk, token=token_id, session=session, visible=visible, permission=permission)


def find_caller(scope: Scope) -> tuple[Token | None, str, Any]:
    """Return the token or the key of the session, and the user; raises NotAuthenticated.

    A token in the URL is not accepted, because URLs are logged.
    """
    authorization = read_header(scope, b"authorization") or _read_subprotocol_token(scope)
    token = read_token(authorization)
    if token is not None:
        return token, "", token.user
    session = _read_session_key(scope)
    # Only a browser sends cookies, and a browser always sends an Origin with a WebSocket.
    if session and (scope["type"] == "http" or read_header(scope, b"origin")) and (user := _get_session_user(session)):
        return None, session, user
    raise NotAuthenticated("authentication is required: `Authorization: Bearer <token>`, or a session")


def _read_subprotocol_token(scope: Scope) -> str:
    named = scope.get("subprotocols") or []
    return f"Bearer {named[1]}" if len(named) == 2 and named[0] == BEARER else ""


def _read_session_key(scope: Scope) -> str:
    try:
        cookies = SimpleCookie(read_header(scope, b"cookie"))
    except CookieError:
        return ""
    found = cookies.get(settings.SESSION_COOKIE_NAME)
    return found.value if found else ""


def _list_visible_types(user: Any, permission: str) -> frozenset[str]:
    if permission and not user.has_perm(permission):
        raise PermissionDenied(f"{user.get_username()} lacks {permission}", required=permission)
    return frozenset(flow.entity_type for flow in machines_visible_to(user.has_perm))


def _get_session_user(session_key: str) -> Any:
    """Return the user of a valid session, None without one or if the session may not be used."""
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request: Any = SimpleNamespace(session=store)
    user = get_user(request)
    if not user.is_authenticated or sessions.must_change_password(store):
        return None
    return user if sessions.is_accepted(user, store) else None


def find_revoked(callers: Iterable[Caller]) -> set[Caller]:
    """Return the callers that have lost access since they connected.

    Their token was revoked or has expired, they were logged out or deactivated, or they may see fewer machines.
    """
    callers, at = set(callers), now()
    token_ids = [caller.token for caller in callers if caller.token is not None]
    tokens = Token.objects.filter(pk__in=token_ids).select_related("user")
    owners = {token.pk: token.user for token in tokens if token.is_good(at)}

    def find_user(caller: Caller) -> Any:
        return owners.get(caller.token) if caller.token is not None else _get_session_user(caller.session)

    return {caller for caller in callers if not _has_access(caller, find_user(caller))}


def _has_access(caller: Caller, user: Any) -> bool:
    try:
        return user is not None and caller.visible <= _list_visible_types(user, caller.permission)
    except PermissionDenied:
        return False
