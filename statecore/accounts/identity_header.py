"""The person that a proxy names in a header after it has authenticated the browser.

Anyone can send a header. `wrap_asgi` sees the address of the connection before the client's replaces it, and keeps the
header of trusted proxies under a key that no request can set. Other code never reads it. A WSGI server cannot do this:
there `X_Forwarded_User`, which a proxy may pass on, replaces `X-Forwarded-User`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from .. import sessions
from .single_sign_on import Person

KEY = "statecore.identity"
MAX_SUBJECT = 255
Identity = tuple[str, str]  # the texts of the header and of the header of groups


class TrustedProxies:
    def __init__(self, given: Iterable[str]) -> None:
        self.networks = [ipaddress.ip_network(each) for each in given]

    def __contains__(self, address: str | None) -> bool:
        try:
            found = ipaddress.ip_address(address or "")
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self.networks)


def wrap_asgi(app: Callable[..., Any]) -> Callable[..., Any]:
    proxies = TrustedProxies(settings.STATECORE_TRUSTED_PROXIES)
    names = [name.lower().encode() for name in _get_names()]

    async def wrapped(scope: dict[str, Any], receive: Any, send: Any) -> Any:
        if scope["type"] == "http" and (scope.get("client") or ("",))[0] in proxies:
            scope = {**scope, KEY: tuple(_join(scope["headers"], name) for name in names)}
        return await app(scope, receive, send)

    return wrapped if settings.STATECORE_IDENTITY_HEADER else app


def _get_names() -> tuple[str, str]:
    return settings.STATECORE_IDENTITY_HEADER, settings.STATECORE_IDENTITY_GROUPS_HEADER


def _join(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    return ",".join(value.decode("latin-1") for name, value in headers if name == wanted)


def read_person(request: HttpRequest) -> Person | None:
    """Return the person that a trusted proxy names; None without one, or if two headers name one each."""
    stored: Identity | None = _get_scope(request).get(KEY)
    if not settings.STATECORE_IDENTITY_HEADER or stored is None:
        return None
    subject, groups = stored[0].strip(), frozenset(each.strip() for each in stored[1].split(",") if each.strip())
    if not 0 < len(subject) <= MAX_SUBJECT or "," in subject or not subject.isprintable():
        return None
    return Person(sessions.find_issuer(), subject, subject, groups)


def _get_scope(request: HttpRequest) -> dict[str, Any]:
    found: dict[str, Any] = getattr(request, "scope", request.META)
    return found


def contradicts(request: HttpRequest) -> bool:
    """Whether the proxy names another person, or nobody, in a request of a session that began with its header.

    Under WSGI it is not known; the session then ends by its age.
    """
    known = request.session.get(sessions.SIGN_IN)
    if known is None or KEY not in _get_scope(request):
        return False
    person = read_person(request)
    return person is None or person.subject != known["subject"]
