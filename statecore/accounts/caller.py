"""The caller of the current request or command, for changes that Django reports without one.

Django's model signals name the changed row only. A middleware keeps the request for them; without one, the change is
made by a command or by the system.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from ..kernel.actors import ANONYMOUS, THE_SYSTEM, Actor, Channel, Kind

_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)
_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)
COMMAND = re.compile(r"[a-z][a-z0-9_]{0,40}")


class RememberRequest(MiddlewareMixin):
    """Keeps the request until its response is ready: the next one may run in the same thread."""

    def process_request(self, request: HttpRequest) -> None:
        _request.set(request)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        _request.set(None)
        return response


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Attributes the changes of accounts in this block to an actor, such as the provider of sign-ins or a token."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def get_current_actor() -> Actor:
    if actor := _actor.get():
        return actor
    request = _request.get()
    return get_process_actor(sys.argv) if request is None else get_request_actor(request)


def get_request_actor(request: HttpRequest, user: Any = None) -> Actor:
    """Return the user of a request, or the one given, with the address; an anonymous caller before a login."""
    user, channel, address = user or getattr(request, "user", None), get_channel(request), get_address(request)
    if user is not None and user.is_authenticated:
        return Actor.operator(user, channel, address)
    return Actor(ANONYMOUS, Kind.OPERATOR, channel, address=address)


def get_channel(request: HttpRequest) -> Channel:
    found = {"admin": Channel.ADMIN, "api": Channel.REST}
    return found.get(request.path.strip("/").partition("/")[0], Channel.CONSOLE)


def get_address(request: HttpRequest) -> str:
    """Return the address of the connection; the servers replace it by the client's behind a trusted proxy."""
    return str(request.META.get("REMOTE_ADDR") or "")


def get_process_actor(arguments: list[str]) -> Actor:
    """Return an actor named after the command of manage.py; the user of a shell is not identified."""
    if not arguments or Path(arguments[0]).name != "manage.py":
        return THE_SYSTEM
    command = arguments[1] if len(arguments) > 1 and COMMAND.fullmatch(arguments[1]) else ""
    return Actor(f"manage.py {command}".strip(), Kind.SYSTEM, Channel.CLI)
