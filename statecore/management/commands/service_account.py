"""`manage.py service_account`: creates and changes service accounts, and issues their tokens."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statecore.accounts import service_accounts
from statecore.kernel.actors import Actor, Channel, Kind
from statecore.kernel.clock import now
from statecore.kernel.refusals import Refusal
from statecore.records.service_account import ServiceAccount
from statecore.records.token import Scope

# A shell user is not identified, so the journal names the command.
BY = Actor("manage.py service_account", Kind.SYSTEM, Channel.CLI)


class Command(BaseCommand):
    help = "Manage service accounts: create, list, change, disable, enable, issue. `token` rotates and revokes tokens."
    # The checks load every view, which this command does not need.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create a service account without tokens")
        _add_fields(create, is_new=True)
        change = actions.add_parser("change", help="change owner, purpose, roles or end")
        _add_fields(change, is_new=False)
        listing = actions.add_parser("list", help="list all service accounts with their tokens")
        listing.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object per line")
        for name, about in (("disable", "refuse its tokens from now on"), ("enable", "accept its tokens again")):
            actions.add_parser(name, help=about).add_argument("name", help="the service account")
        issue = actions.add_parser("issue", help="create a token and print it; it cannot be shown again")
        issue.add_argument("name", help="the service account")
        issue.add_argument("--scope", required=True, choices=Scope.values, help="what the token may do")
        issue.add_argument("--expires", type=float, metavar="DAYS", help="days until it expires, at most 365 (90)")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(**options)
        except Refusal as refusal:
            raise CommandError(refusal.detail) from refusal

    def _create(self, *, name: str, **options: Any) -> None:
        account = service_accounts.create(name, **_read_fields(options), actor=BY)
        self.stdout.write(f"{account} is created. Issue its first token: manage.py service_account issue {name}")

    def _change(self, *, name: str, **options: Any) -> None:
        self.stdout.write(_line(service_accounts.change(name, _read_fields(options), actor=BY)))

    def _list(self, *, as_json: bool, **_: Any) -> None:
        for account in service_accounts.list_visible(None, is_admin=True):
            self.stdout.write(json.dumps(account.as_dict()) if as_json else _line(account))

    def _disable(self, *, name: str, **_: Any) -> None:
        self.stdout.write(_line(service_accounts.disable(name, actor=BY)))

    def _enable(self, *, name: str, **_: Any) -> None:
        self.stdout.write(_line(service_accounts.enable(name, actor=BY)))

    def _issue(self, *, name: str, scope: str, expires: float | None, **_: Any) -> None:
        _token, text = service_accounts.issue_token(name, scope, lifetime=read_days(expires), actor=BY)
        self.stdout.write(text)


def _add_fields(parser: ArgumentParser, *, is_new: bool) -> None:
    parser.add_argument("name", help="lower-case letters, digits, dots, dashes and underscores")
    parser.add_argument("--owner", required=is_new, help="the person who answers for it")
    parser.add_argument("--purpose", required=is_new, help="what it is for")
    parser.add_argument("--role", action="append", dest="roles", help="a role it has; may be repeated")
    parser.add_argument("--expires", type=float, metavar="DAYS", help="days until it ends (default: never)")


def _read_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given."""
    found = {name: options[name] for name in ("owner", "purpose", "roles") if options[name] is not None}
    if (lifetime := read_days(options["expires"])) is not None:
        found["expires_at"] = now() + lifetime
    return found


def read_days(days: float | None) -> timedelta | None:
    try:
        return None if days is None else timedelta(days=days)
    except (OverflowError, ValueError) as error:
        raise CommandError(f"{days} is not a valid number of days.") from error


def _line(account: ServiceAccount) -> str:
    owner = account.owner.get_username() if account.has_active_owner and account.owner else "no active owner"
    state = "enabled" if account.user.is_active else "disabled"
    roles = ", ".join(account.roles()) or "no roles"
    return (
        f"{account.user.get_username()}  {state}  {owner}  {roles}  {len(account.tokens())} tokens  {account.purpose}"
    )
