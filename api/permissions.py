"""Whether a token is for this kind of call. What its holder may do to a machine is decided by the door."""

from __future__ import annotations

from statecore.kernel.refusals import PermissionDenied
from statecore.records.token import Scope, Token

from .request import Request

SAFE = ("GET", "HEAD")


def check(request: Request, writes_need: Scope) -> None:
    """Reading needs `read`."""
    if request.auth is not None:
        require(request.auth, Scope.READ if request.method in SAFE else writes_need)


def require(token: Token, scope: Scope) -> None:
    if not token.may(scope):
        raise PermissionDenied(f"this token is for {token.scope}, this call needs {scope}", required=str(scope))
