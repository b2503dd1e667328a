"""`second_factor USER`: whether somebody has one; `--remove` takes it away from who has lost it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard import second_factor


class Command(BaseCommand):
    help = "Tells whether a user has a second factor; --remove takes it away, so that the password alone lets them in."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the name they log in with")
        parser.add_argument("--remove", action="store_true", help="take it away")

    def handle(self, *_: Any, user: str, remove: bool, **__: Any) -> None:
        found = User.objects.filter(username=user).first()
        if found is None:
            raise CommandError(f"there is no user {user}")
        if remove:
            gone = second_factor.remove(found)
            self.stdout.write(f"{user}: {'removed' if gone else 'had none'}")
            return
        has = second_factor.device_of(found) is not None
        left = second_factor.recovery_codes_left(found)
        self.stdout.write(f"{user}: {f'has one, and {left} codes on paper' if has else 'has none'}")
