"""What the logged-in user may see and do. The transition service checks again; pages use this to offer only that."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from statecore.accounts import caller
from statecore.kernel import registry
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.flow import Flow

READ_ONLY = "The console is read-only because STATECORE_READ_ONLY is set."


def get_user(request: HttpRequest) -> Any:
    """The logged-in user; the middleware sends everyone else to the login page."""
    return request.user


def get_actor(request: HttpRequest) -> Actor:
    return Actor.operator(get_user(request), Channel.CONSOLE, caller.get_address(request))


def is_allowed(user: Any, flow: Flow, action: str) -> bool:
    """`view`, `operate` or `override`; only `view` while the console is read-only."""
    if settings.STATECORE_READ_ONLY and action != "view":
        return False
    return bool(user.has_perm(flow.permission(action)))


def require_action(request: HttpRequest, flow: Flow, action: str) -> None:
    if is_allowed(request.user, flow, action):
        return
    if settings.STATECORE_READ_ONLY and action != "view":
        raise PermissionDenied(READ_ONLY)
    raise PermissionDenied(_missing(flow.permission(action)))


def require_permission(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied(_missing(permission))


def may_write(request: HttpRequest, permission: str) -> bool:
    """Whether a page offers an action: the user has the permission, and the console is not read-only."""
    return not settings.STATECORE_READ_ONLY and bool(request.user.has_perm(permission))


def require_writable() -> None:
    if settings.STATECORE_READ_ONLY:
        raise PermissionDenied(READ_ONLY)


def _missing(permission: str) -> str:
    return f"You need the permission {permission}. Ask an administrator to add you to a group that has it."


def visible_machines(user: Any) -> list[Flow]:
    return [flow for flow in registry.flows() if is_allowed(user, flow, "view")]


def require_visible_machines(request: HttpRequest) -> list[Flow]:
    """The machines the user may see; PermissionDenied when there are none.

    An empty list would read as "no filter" to the journal's queries and return every event.
    """
    found = visible_machines(request.user)
    if not found:
        raise PermissionDenied("Your account may not see any machine. Ask an administrator to add you to a group.")
    return found


def visible_types(request: HttpRequest) -> frozenset[str]:
    """The entity types the user may see; possibly none."""
    return frozenset(flow.entity_type for flow in visible_machines(request.user))
