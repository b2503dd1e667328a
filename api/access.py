"""Authentication and permissions of callers, and the actor that is recorded for a call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from statecore.kernel import registry
from statecore.kernel.actors import Actor, Channel, Kind
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import PermissionDenied
from statecore.records import token as tokens
from statecore.records.token import Scope, Token

from .refusals import NotAuthenticated
from .request import Request

HEADER = "HTTP_AUTHORIZATION"
SCHEME = "bearer"
MAX_TOKEN_LENGTH = 200
SAFE = ("GET", "HEAD")
VIEW_EVENT = "statecore.view_event"
VIEW_ALERT = "statecore.view_alert"


# Authentication: a bearer token, or a browser session with its CSRF token


def identify(request: Request, *permissions: str) -> None:
    """Set `request.auth` and `request.user`; raises NotAuthenticated. The token query also reads the permissions."""
    token = read_token(request.META.get(HEADER, ""), *permissions)
    if token is None:
        _check_session(request)
    else:
        request.user = token.user
    request.auth = token


def read_token(header: str, *permissions: str) -> Token | None:
    """Return the token of an Authorization header, None without one; raises NotAuthenticated for an invalid token.

    The refusal does not distinguish a wrong token from one that expired, was revoked or lost its user.
    """
    if not header:
        return None
    text = token_text(header)
    token = tokens.find(text, *permissions) if text else None
    if token is None:
        raise NotAuthenticated("this token is not valid: it is unknown, revoked or expired")
    return token


def token_text(header: str) -> str:
    """Return the text of a bearer token; empty if the header has none."""
    scheme, _, text = header.partition(" ")
    text = text.strip()
    return text if scheme.lower() == SCHEME and len(text) <= MAX_TOKEN_LENGTH else ""


def _check_session(request: Request) -> None:
    """Require an active Django session, and the CSRF token for every method that could change something."""
    if not request.user.is_active:
        raise NotAuthenticated("authentication is needed: `Authorization: Bearer <token>`")
    check = CsrfCheck(_empty_response)
    check.process_request(request)
    if reason := check.process_view(request, _empty_response, (), {}):
        raise PermissionDenied(f"CSRF failed: {reason}")


def _empty_response(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


class CsrfCheck(CsrfViewMiddleware):
    """Django's check, which returns the reason instead of a page."""

    def _reject(self, request: Any, reason: str) -> Any:
        return reason


# Permissions. What a caller may do to an entity is decided by the transition service.


def check_scope(request: Request, *writes_need: Scope) -> None:
    """Require the scope `read` for reading and one of `writes_need` for changes.

    A read-only installation refuses all changes.
    """
    reads = request.method in SAFE
    if request.auth is not None:
        require_scope(request.auth, *((Scope.READ,) if reads else writes_need))
    read_only = settings.STATECORE_READ_ONLY_FOR_PROGRAMS if request.auth else settings.STATECORE_READ_ONLY
    if read_only and not reads:
        raise PermissionDenied("this installation is read-only: STATECORE_READ_ONLY is set", required="writable")


def require_scope(token: Token, *scopes: Scope) -> None:
    """Require one of the scopes."""
    if not token.may(*scopes):
        needed = " or ".join(scopes)
        raise PermissionDenied(f"this token is for {token.scope}, this call needs {needed}", required=needed)


def has_permission(request: Request, permission: str) -> bool:
    """Whether the user, or the owner of the token, has a permission now."""
    return request.auth.owner_holds(permission) if request.auth else bool(request.user.has_perm(permission))


def require_permission(request: Request, permission: str) -> None:
    if not has_permission(request, permission):
        raise PermissionDenied(f"{request.user.get_username()} lacks {permission}", required=permission)


def require_visible(request: Request, *flows: Flow) -> None:
    for flow in flows:
        require_permission(request, flow.permission("view"))


def visible_machines(request: Request) -> list[Flow]:
    return machines_visible_to(lambda permission: has_permission(request, permission))


def machines_visible_to(may: Callable[[str], bool]) -> list[Flow]:
    """Return the machines a caller may see; raises PermissionDenied if there is none, because none means all below."""
    found = [flow for flow in registry.flows() if may(flow.permission("view"))]
    if not found:
        raise PermissionDenied("there is no machine that you may see", required="view")
    return found


def visible_types(request: Request) -> frozenset[str]:
    return frozenset(flow.entity_type for flow in visible_machines(request))


def narrow_to_caller(request: Request, wanted: Iterable[str]) -> list[str]:
    return narrow_to_visible(wanted, visible_types(request))


def narrow_to_visible(wanted: Iterable[str], visible: Collection[str]) -> list[str]:
    """Return the wanted entity types, or all visible ones; an empty list means that every type is visible.

    Raises PermissionDenied for a wanted type that is not visible.
    """
    every = {flow.entity_type: flow for flow in registry.flows()}
    for each in wanted:
        if each in every and each not in visible:
            needed = every[each].permission("view")
            raise PermissionDenied(f"this takes the permission {needed}", required=needed)
    return [*wanted] or ([] if len(visible) == len(every) else sorted(visible))


# Actors


def actor_of(request: Request) -> Actor:
    """Return the actor of the token's scope, an agent for tools of language models, otherwise an operator."""
    if isinstance(request.auth, Token) and (tool := _tool(request)):
        return replace(request.auth.as_agent(), tool=tool)
    return request.auth.actor() if isinstance(request.auth, Token) else Actor.operator(request.user, Channel.REST)


def reads_only(request: Request) -> bool:
    """Whether the caller's token allows no change at all."""
    return isinstance(request.auth, Token) and request.auth.scope == Scope.READ


def _tool(request: Request) -> str:
    """The scope is set by this process only; a caller cannot send it as a header."""
    return str(getattr(request, "scope", {}).get("statecore.tool", ""))


def agent_of(request: Request) -> Actor:
    """Return an agent for calls that agents make, if the token's scope includes `agent`; a browser user stays one."""
    tool = _tool(request)
    if isinstance(request.auth, Token) and request.auth.may(Scope.AGENT):
        return replace(request.auth.as_agent(), tool=tool) if tool else request.auth.as_agent()
    return actor_of(request)


def actor_for_trigger(request: Request, flow: Flow, trigger: str) -> Actor:
    """Scopes include the lower ones: an operator's token fires a trigger that only agents may fire as an agent."""
    return agent_of(request) if trigger in _triggers_for_agents_only(flow) else actor_of(request)


@cache
def scopes_to_fire(flow: Flow) -> tuple[Scope, ...]:
    """Return the scopes with which a token may fire transitions of a machine."""
    kinds = {kind for transition in flow.transitions for kind in transition.actors}
    return (Scope.AGENT, Scope.INTEGRATE) if Kind.INTEGRATOR in kinds else (Scope.AGENT,)


@cache
def _triggers_for_agents_only(flow: Flow) -> frozenset[str]:
    kinds: dict[str, set[Kind]] = {}
    for transition in flow.transitions:
        kinds.setdefault(transition.trigger, set()).update(transition.actors)
    return frozenset(name for name, found in kinds.items() if Kind.AGENT in found and Kind.OPERATOR not in found)
