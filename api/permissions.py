"""Whether a token is for this kind of call. What its holder may do to a machine is decided by the door."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from statecore.kernel.refusals import PermissionDenied
from statecore.records.token import Scope, Token

from .refusals import NotAuthenticated


class ScopeAllows(BasePermission):
    """A view names the scope of its writing calls in `writes_need`; reading needs `read`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user.is_authenticated:
            raise NotAuthenticated("authentication is needed: `Authorization: Bearer <token>`")
        needed = Scope.READ if request.method in SAFE_METHODS else getattr(view, "writes_need", Scope.AGENT)
        if isinstance(request.auth, Token):
            require(request.auth, needed)
        return True


def require(token: Token, scope: Scope) -> None:
    if not token.may(scope):
        raise PermissionDenied(f"this token is for {token.scope}, this call needs {scope}", required=str(scope))
