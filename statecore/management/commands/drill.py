"""Rehearses the loss of the machine."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from statecore import backup

NOT_IN_IT = "Not in an export, so kept elsewhere or made anew: users, tokens, settings, files."


class Command(BaseCommand):
    help = "Export, restore it into a database that is thrown away, and say how long it took and what would be lost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--folder", type=Path, help="where exports are kept (STATECORE_BACKUP_DIR)")
        parser.add_argument(
            "--as-it-is", action="store_true", help="with the newest export there is: as if it were now"
        )
        parser.add_argument("--into", default="", metavar="URL", help="an empty database, perhaps on another machine")
        parser.add_argument("--json", action="store_true", help="one object, for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["folder"] or settings.STATECORE_BACKUP_DIR
        try:
            done = backup.drill(folder, first_export=not options["as_it_is"], into=options["into"])
        except backup.DrillFailed as reason:
            raise CommandError(f"the drill failed: {reason}") from None
        self.stdout.write(json.dumps(done.as_dict()) if options["json"] else _told(done))


def _told(done: backup.Drill) -> str:
    exported = f"exported in {done.export_seconds:.1f} s; " if done.export_seconds is not None else ""
    lost = (
        f"lost: {done.lost_events} events of the {done.lost_seconds:.0f} s since then."
        if done.lost_events
        else "lost: nothing."
    )
    return (
        f"{done.export} ({done.made_at}), up to position {done.position}\n"
        f"{exported}restored and verified in {done.restore_seconds:.1f} s: {done.events} events, {done.rows} rows\n"
        f"{lost}\n{NOT_IN_IT}"
    )
