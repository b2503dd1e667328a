"""Whether a browser on this page may open a socket: the cookie alone would let any page in."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from statecore.kernel.refusals import Invalid, PermissionDenied

from .asgi import Scope, header


def check_host(scope: Scope) -> None:
    host = header(scope, b"host")
    domain, _port = split_domain_port(host)
    allowed = settings.ALLOWED_HOSTS or [".localhost", "127.0.0.1", "[::1]"]
    if not domain or not validate_host(domain, allowed):
        raise Invalid({"host": ["is not one this server answers for."]})


def check_origin(scope: Scope) -> None:
    """Programs send none; a browser always does, and it must be a page of ours or one that the settings trust."""
    origin = header(scope, b"origin")
    if not origin or origin in settings.CSRF_TRUSTED_ORIGINS:
        return
    if _place(origin) != header(scope, b"host").lower():
        raise PermissionDenied("this page may not open a socket here", required="origin")


def _place(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # brackets that do not match
        return None
