"""Tokens of agents that this process has admitted before; one statement then checks the token and does the work.

The owner of a token never changes; its validity is checked by each statement.
"""

from __future__ import annotations

from django.conf import settings

from statecore.records.token import Scope, Token, hashed

from .access import HEADER, token_text
from .request import Request

MAX_TOKENS = 10_000
_tokens: dict[str, Token] = {}  # by hash


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
