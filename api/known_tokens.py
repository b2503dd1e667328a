"""Tokens of agents that this process has admitted before; one statement then checks the token and does the work.

The owner of a token never changes; its validity is checked by each statement.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse

from statecore.kernel.refusals import Refusal
from statecore.records.token import Scope, Token, hashed

from .access import HEADER, token_text
from .request import Request
from .views import ApiView

MAX_TOKENS = 10_000
_tokens: dict[str, Token] = {}  # by hash


class KnownTokenView(ApiView):
    """A call that an agent makes all day: the token of a repeated POST is checked by a statement of its work."""

    def handle(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        token = find(request)
        if token is None:
            return super().handle(request, *args, **kwargs)
        try:
            response = self.respond_fast(request, token, *args, **kwargs)
        except Refusal:
            self.admit(request)  # a caller without access is refused for that, not for the request
            raise
        return super().handle(request, *args, **kwargs) if response is None else response

    def respond_fast(self, request: Request, token: Token, *args: Any, **kwargs: Any) -> HttpResponse | None:
        """Respond if the token is still valid; None if the call has to be handled like any other."""
        raise NotImplementedError


def find(request: Request) -> Token | None:
    """Return the token of a POST if an agent has used it in this process before."""
    if request.method != "POST" or settings.STATECORE_READ_ONLY_FOR_PROGRAMS:
        return None
    return _tokens.get(hashed(token_text(request.META.get(HEADER, ""))))


def remember(token: Token | None) -> None:
    if token is None or token.scope != Scope.AGENT:
        return
    if len(_tokens) >= MAX_TOKENS:
        _tokens.clear()
    _tokens[token.hash] = token
