"""`manage.py identity USER`: shows to whom at the provider an account belongs; `--link SUBJECT` links it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from statecore import sessions
from statecore.accounts import single_sign_on
from statecore.accounts.caller import get_process_actor
from statecore.records import ExternalIdentity


class Command(BaseCommand):
    help = (
        "Shows which person at the OpenID provider or trusted proxy an account belongs to. --link SUBJECT links an"
        " account that was made here, for good."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the username")
        parser.add_argument(
            "--link", metavar="SUBJECT", help="the person's `sub` at the provider, or value of the header"
        )

    def handle(self, *_: Any, user: str, link: str | None, **__: Any) -> None:
        found = User.objects.filter(username=user).first()
        if found is None:
            raise CommandError(f"there is no user {user}")
        if link is not None:
            self._link(found, link)
        linked = ExternalIdentity.objects.filter(user=found).first()
        self.stdout.write(f"{user}: {linked or 'not linked'}")

    def _link(self, user: User, subject: str) -> None:
        issuer = sessions.find_issuer()
        if not issuer:
            raise CommandError("single sign-on is off: set STATECORE_OIDC_ISSUER or STATECORE_IDENTITY_HEADER")
        try:
            single_sign_on.link(user, issuer, subject, get_process_actor(sys.argv))
        except IntegrityError:
            raise CommandError("the account or the person is linked already, and links are for good") from None
