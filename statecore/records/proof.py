"""A token's validity as an SQL condition, which saves a query in the calls that agents make all day."""

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


NO_PROOF = Proof("", [])


class NotProven(Exception):
    """The condition was false: the call has to be handled by one that reads the token."""


def proof(token: Token, *permissions: str) -> Proof:
    """Return the condition that a token found earlier is still valid and its owner has the permissions.

    The condition is false when the token's last use must be recorded again, which `find` does.
    """
    moment = connection.ops.adapt_datetimefield_value
    at = now()
    known = [token.hash, token.name, token.scope]
    held = [part for permission in permissions for part in about(permission)]
    return Proof(_condition(len(permissions)), [*known, moment(at), moment(at - USE_NOTED_EVERY), *held])


@cache
def _condition(permissions: int) -> str:
    quote = connection.ops.quote_name
    token, user = quote(Token._meta.db_table), quote(get_user_model()._meta.db_table)
    return (
        f"EXISTS (SELECT 1 FROM {token} AS token JOIN {user} AS owner ON owner.id = token.user_id "  # noqa: S608 - names of tables only
        "WHERE token.hash = %s AND token.name = %s AND token.scope = %s AND token.revoked_at IS NULL "
        "AND (token.expires_at IS NULL OR token.expires_at > %s) AND token.last_used_at > %s "
        f"AND owner.is_active{f' AND {HELD}' * permissions})"
    )
