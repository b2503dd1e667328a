"""Takes old events out of the database."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from statecore import retiring
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.clock import now, told


class Command(BaseCommand):
    help = "Move events older than STATECORE_RETENTION_DAYS into verified files, and out of the database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--operator", required=True, help="who does this: a user with the right to retire events")
        parser.add_argument("--reason", required=True, help="why: 10 characters or more, on record for ever")
        parser.add_argument("--to", type=Path, help="where the files are kept (STATECORE_RETIRED_DIR)")
        parser.add_argument("--dry-run", action="store_true", help="say what would be retired, and do nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.STATECORE_RETENTION_DAYS:
            raise CommandError("STATECORE_RETENTION_DAYS is not set: nothing is ever retired.")
        older_than = now() - timedelta(days=settings.STATECORE_RETENTION_DAYS)
        folder: Path = options["to"] or settings.STATECORE_RETIRED_DIR
        due = retiring.due(older_than)
        if not due.events:
            self.stdout.write(f"nothing was sealed before {told(older_than)} and read by every sink ({due.slowest})")
            return
        self.stdout.write(f"{due.events} events, positions {due.first} to {due.last}, to {folder}")
        if not options["dry_run"]:
            self._retire(older_than, folder, due, options)

    def _retire(self, older_than: Any, folder: Path, due: retiring.Due, options: dict[str, Any]) -> None:
        by = Actor.operator(_user(options["operator"]), Channel.CLI)
        done = 0
        try:
            for record in retiring.retire(older_than, folder, by=by, reason=options["reason"]):
                done = record.last_position - due.first + 1
                self.stdout.write(f"{min(100, 100 * done // due.events)} %: {record}")
        except retiring.CannotRetire as reason:
            raise CommandError(f"{done} events were retired, no more: {reason}") from None
        self.stdout.write(f"{done} events were retired. Their files are the only copy now: keep them.")


def _user(name: str) -> Any:
    user = get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: name}).first()
    if user is None:
        raise CommandError(f"there is no user {name!r}.")
    return user
