"""`manage.py token`: creates, lists, rotates and revokes API tokens."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from statecore.accounts import service_accounts
from statecore.kernel.actors import Actor, Channel, Kind
from statecore.kernel.refusals import Refusal
from statecore.records import token as tokens
from statecore.records.service_account import ServiceAccount
from statecore.records.token import Scope, Token

from .service_account import read_days

# A shell user is not identified, so the audit note names the command.
BY = Actor("manage.py token", Kind.SYSTEM, Channel.CLI)


class Command(BaseCommand):
    help = "Manage API tokens: create NAME --user USER --scope SCOPE [--expires DAYS], list, rotate NAME, revoke NAME."
    # The checks load every view, which this command does not need.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create a token and print it; it cannot be shown again")
        create.add_argument("name", help="the actor's name in events")
        create.add_argument("--user", required=True, help="the user whose permissions limit the token")
        create.add_argument(
            "--scope",
            required=True,
            choices=Scope.values,
            help="each scope includes those before it, but `integrate` only `read`",
        )
        create.add_argument("--expires", type=float, metavar="DAYS", help="days until it expires (default: never)")
        listing = actions.add_parser("list", help="list all tokens, newest first, without their secrets")
        listing.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object per line")
        rotate = actions.add_parser("rotate", help="create a token beside another, which ends later, and print it")
        rotate.add_argument("name", help="the token's name or prefix")
        rotate.add_argument("--overlap", type=float, default=24, metavar="HOURS", help="when the old one ends (24)")
        rotate.add_argument("--expires", type=float, metavar="DAYS", help="days until the new one expires (as the old)")
        revoke = actions.add_parser("revoke", help="revoke a token permanently")
        revoke.add_argument("name", help="the token's name or prefix")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(**options)
        except Refusal as refusal:
            raise CommandError(refusal.detail) from refusal

    def _create(self, *, name: str, user: str, scope: str, expires: float | None, **_: Any) -> None:
        owner = get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: user}).first()
        if owner is None:
            raise CommandError(f"there is no user {user!r}.")
        _token, text = tokens.make(name, owner, scope, expires_in=read_days(expires), by=BY)
        self.stdout.write(text)

    def _list(self, *, as_json: bool, **_: Any) -> None:
        found = [token.as_dict() for token in Token.objects.select_related("user").order_by("-created_at", "-pk")]
        for token in found:
            self.stdout.write(json.dumps(token) if as_json else _line(token))

    def _rotate(self, *, name: str, overlap: float, expires: float | None, **_: Any) -> None:
        token, lifetime = _find(name), read_days(expires)
        hours = read_days(overlap / 24) or timedelta()
        if account := ServiceAccount.objects.filter(user=token.user).select_related("user").first():
            _token, text = service_accounts.rotate_token(
                account.name, token.prefix, overlap=hours, lifetime=lifetime, actor=BY
            )
        else:
            kept = token.expires_at - token.created_at if token.expires_at else None
            _token, text = tokens.rotate(token, hours, expires_in=lifetime or kept, by=BY)
        self.stdout.write(text)

    def _revoke(self, *, name: str, **_: Any) -> None:
        token = _find(name)
        was = "is revoked" if tokens.revoke(token, BY) else "was revoked already"
        self.stdout.write(f"{token} {was}.")


def _find(name: str) -> Token:
    token = Token.objects.select_related("user").filter(Q(name=name) | Q(prefix=name)).first()
    if token is None:
        raise CommandError(f"there is no token {name!r}.")
    return token


def _line(token: dict[str, Any]) -> str:
    ended = "revoked" if token["revoked_at"] else f"until {token['expires_at'] or 'revoked'}"
    used = token["last_used_at"] or "never"
    return f"{token['prefix']}  {token['name']}  {token['scope']}  of {token['user']}  {ended}  used {used}"
