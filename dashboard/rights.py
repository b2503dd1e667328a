"""Who may see and do what; the door asks again, this keeps pages from offering what it would refuse."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from statecore.kernel import registry
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.flow import Flow


def person(request: HttpRequest) -> Any:
    """Who is logged in; the middleware lets nobody else through."""
    return request.user


def actor_of(request: HttpRequest) -> Actor:
    return Actor.operator(person(request), Channel.CONSOLE)


def may(user: Any, flow: Flow, action: str) -> bool:
    """`view`, `operate` or `override`; nothing but view while the console is read-only."""
    if settings.STATECORE_READ_ONLY and action != "view":
        return False
    return bool(user.has_perm(flow.permission(action)))


def require(request: HttpRequest, flow: Flow, action: str) -> None:
    if not may(request.user, flow, action):
        raise PermissionDenied(_why_not(flow, action))


def seen(request: HttpRequest) -> list[Flow]:
    """The machines this person may see; nobody asks for the events of none, which would be those of all."""
    found = [flow for flow in registry.flows() if may(request.user, flow, "view")]
    if not found:
        raise PermissionDenied("there is no machine that you may see")
    return found


def sight(request: HttpRequest) -> frozenset[str]:
    """The names of the machines this person may be told of; none is a page without any."""
    return frozenset(flow.entity_type for flow in registry.flows() if may(request.user, flow, "view"))


def require_permission(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied(f"this page takes the permission {permission}")


def require_writable() -> None:
    if settings.STATECORE_READ_ONLY:
        raise PermissionDenied("the console is read-only: STATECORE_READ_ONLY is set")


def _why_not(flow: Flow, action: str) -> str:
    if settings.STATECORE_READ_ONLY and action != "view":
        return "the console is read-only: STATECORE_READ_ONLY is set"
    return f"this takes the permission {flow.permission(action)}"
