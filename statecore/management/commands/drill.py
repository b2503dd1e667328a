"""`manage.py drill`: rehearses the loss of the host."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from statecore.operations import backup

NOT_INCLUDED = "It does not contain logs, settings and files: keep copies."
WITHOUT_ACCOUNTS = (
    "It does not contain users, tokens and webhooks, because it is not encrypted: set STATECORE_BACKUP_PASSPHRASE."
)


class Command(BaseCommand):
    help = "Export, restore into a temporary database, and report the duration and what would be lost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--folder", type=Path, help="folder of the exports (default: STATECORE_BACKUP_DIR)")
        parser.add_argument(
            "--as-it-is", action="store_true", help="use the newest existing export instead of a new one"
        )
        parser.add_argument("--into", default="", metavar="URL", help="restore into this empty database, which is kept")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["folder"] or settings.STATECORE_BACKUP_DIR
        try:
            done = backup.drill(folder, export_first=not options["as_it_is"], into=options["into"])
        except backup.DrillFailed as reason:
            raise CommandError(f"the drill failed: {reason}") from None
        self.stdout.write(json.dumps(done.as_dict()) if options["json"] else _format(done))


def _format(done: backup.DrillReport) -> str:
    exported = f"exported in {done.export_seconds:.1f} s; " if done.export_seconds is not None else ""
    lost = (
        f"lost: {done.lost_events} events of the {done.lost_seconds:.0f} s since then."
        if done.lost_events
        else "lost: nothing."
    )
    return (
        f"{done.export} ({done.made_at}), up to position {done.position}\n"
        f"{exported}restored and verified in {done.restore_seconds:.1f} s: {done.events} events, {done.rows} rows\n"
        f"{lost}\n{NOT_INCLUDED}" + ("" if settings.STATECORE_BACKUP_PASSPHRASE else f"\n{WITHOUT_ACCOUNTS}")
    )
