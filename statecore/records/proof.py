"""That a token is good, as a condition of the statement it is shown for: one question less in the commonest call."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.db import connection

from ..kernel.clock import now
from .token import HELD, USE_NOTED_EVERY, Token, about


class Proof(NamedTuple):
    sql: str
    params: list[Any]


NOT_ASKED = Proof("", [])


def proof(token: Token, permission: str) -> Proof:
    """As `Token.is_good` and `find` have it, at this moment, of a token that was found before.

    One whose use has to be noted again is not among them: `find` does that.
    """
    moment = connection.ops.adapt_datetimefield_value
    at = now()
    known = [token.hash, token.name, token.scope]
    return Proof(_condition(), [*known, moment(at), moment(at - USE_NOTED_EVERY), *about(permission)])


@cache
def _condition() -> str:
    quote = connection.ops.quote_name
    token, user = quote(Token._meta.db_table), quote(get_user_model()._meta.db_table)
    return (
        f"EXISTS (SELECT 1 FROM {token} AS token JOIN {user} AS owner ON owner.id = token.user_id "  # noqa: S608 - names of tables only
        "WHERE token.hash = %s AND token.name = %s AND token.scope = %s AND token.revoked_at IS NULL "
        "AND (token.expires_at IS NULL OR token.expires_at > %s) AND token.last_used_at > %s "
        f"AND owner.is_active AND {HELD})"
    )
