"""`second_factor USER`: shows whether the user has two-factor authentication; `--remove` turns it off."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from statecore.dashboard import second_factor


class Command(BaseCommand):
    help = "Shows whether a user has two-factor authentication; --remove turns it off, so that the password is enough."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the username")
        parser.add_argument("--remove", action="store_true", help="turn it off")

    def handle(self, *_: Any, user: str, remove: bool, **__: Any) -> None:
        found = User.objects.filter(username=user).first()
        if found is None:
            raise CommandError(f"there is no user {user}")
        if remove:
            gone = second_factor.remove(found)
            self.stdout.write(f"{user}: {'turned off' if gone else 'was not set up'}")
            return
        has = second_factor.is_set_up(found)
        left = second_factor.count_recovery_codes(found)
        self.stdout.write(f"{user}: {f'set up, {left} recovery codes left' if has else 'not set up'}")
