"""`manage.py archive`: archives old events."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from statecore.kernel.actors import Actor, Channel
from statecore.kernel.clock import format_utc, now
from statecore.operations import retention


class Command(BaseCommand):
    help = "Archive events older than STATECORE_RETENTION_DAYS in verified files and delete them from the database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--operator", required=True, help="your user name; needs the permission to archive events")
        parser.add_argument("--reason", required=True, help="at least 10 characters, recorded permanently")
        parser.add_argument("--to", type=Path, help="folder of the archive files (default: STATECORE_ARCHIVE_DIR)")
        parser.add_argument("--dry-run", action="store_true", help="print what would be archived, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.STATECORE_RETENTION_DAYS:
            raise CommandError("STATECORE_RETENTION_DAYS is not set, so no events are archived.")
        older_than = now() - timedelta(days=settings.STATECORE_RETENTION_DAYS)
        folder: Path = options["to"] or settings.STATECORE_ARCHIVE_DIR
        due = retention.find_due_events(older_than)
        if not due.events:
            self.stdout.write(
                f"nothing was signed before {format_utc(older_than)} and read by every sink ({due.slowest})"
            )
            return
        self.stdout.write(f"{due.events} events, positions {due.first} to {due.last}, to {folder}")
        if not options["dry_run"]:
            self._archive(older_than, folder, due, options)

    def _archive(self, older_than: Any, folder: Path, due: retention.DueEvents, options: dict[str, Any]) -> None:
        by = Actor.operator(_user(options["operator"]), Channel.CLI)
        done = 0
        try:
            for record in retention.archive_events(older_than, folder, by=by, reason=options["reason"]):
                done = record.last_position - due.first + 1
                self.stdout.write(f"{min(100, 100 * done // due.events)} %: {record}")
        except retention.ArchivingFailed as reason:
            raise CommandError(f"{done} events were archived before the error: {reason}") from None
        self.stdout.write(f"{done} events were archived. The files are now the only copy: keep them.")


def _user(name: str) -> Any:
    user = get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: name}).first()
    if user is None:
        raise CommandError(f"there is no user {name!r}.")
    return user
