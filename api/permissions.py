"""Whether this caller may make this call at all. What the holder of a token may do to an entity, the door decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from django.conf import settings

from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import PermissionDenied
from statecore.records.token import Scope, Token

from .request import Request

SAFE = ("GET", "HEAD")
VIEW_EVENT = "statecore.view_event"
VIEW_ALERT = "statecore.view_alert"


def check(request: Request, writes_need: Scope) -> None:
    """Reading needs a token for `read`; changes are refused where this installation only shows."""
    reads = request.method in SAFE
    if request.auth is not None:
        require(request.auth, Scope.READ if reads else writes_need)
    only_shows = settings.STATECORE_READ_ONLY_FOR_PROGRAMS if request.auth else settings.STATECORE_READ_ONLY
    if only_shows and not reads:
        raise PermissionDenied("this installation only shows: STATECORE_READ_ONLY is set", required="writable")


def require(token: Token, scope: Scope) -> None:
    if not token.may(scope):
        raise PermissionDenied(f"this token is for {token.scope}, this call needs {scope}", required=str(scope))


def holds(request: Request, permission: str) -> bool:
    """The right of the person who calls, or of whom the token belongs to: at this moment, whatever it was for."""
    return request.auth.owner_holds(permission) if request.auth else bool(request.user.has_perm(permission))


def require_right(request: Request, permission: str) -> None:
    if not holds(request, permission):
        raise PermissionDenied(f"{request.user.get_username()} lacks {permission}", required=permission)


def require_sight(request: Request, *flows: Flow) -> None:
    for flow in flows:
        require_right(request, flow.permission("view"))


def seen(request: Request) -> list[Flow]:
    """The machines this caller may see."""
    return seen_by(lambda permission: holds(request, permission))


def seen_by(may: Callable[[str], bool]) -> list[Flow]:
    """Refused where there are none, for none would read as all."""
    found = [flow for flow in registry.flows() if may(flow.permission("view"))]
    if not found:
        raise PermissionDenied("there is no machine that you may see", required="view")
    return found


def sight(request: Request) -> frozenset[str]:
    """Their names."""
    return frozenset(flow.entity_type for flow in seen(request))


def narrowed(request: Request, wanted: Iterable[str]) -> list[str]:
    return narrowed_to(wanted, sight(request))


def narrowed_to(wanted: Iterable[str], seen: Collection[str]) -> list[str]:
    """These entity types, if all of them may be seen; where none is named, those that may, or none if that is all."""
    every = {flow.entity_type: flow for flow in registry.flows()}
    for each in wanted:
        if each in every and each not in seen:
            needed = every[each].permission("view")
            raise PermissionDenied(f"this takes the permission {needed}", required=needed)
    return [*wanted] or ([] if len(seen) == len(every) else sorted(seen))
