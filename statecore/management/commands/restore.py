"""`manage.py restore`: loads a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statecore.journal import ArchivedRange
from statecore.journal.epochs import list_epochs
from statecore.operations import backup


class Command(BaseCommand):
    help = "Load an export and those it continues into an empty database; nothing is kept unless everything verifies."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="an export, or a folder of exports to take the newest from")
        parser.add_argument("--archives", type=Path, help="verify the files of archived events too, in this folder")
        parser.add_argument(
            "--epoch",
            type=int,
            default=0,
            help="the least number of the new epoch, if the lost installation had a later one than this export shows",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            restored = backup.restore(options["folder"], options["archives"], options["epoch"])
        except backup.RestoreFailed as reason:
            raise CommandError(f"nothing was restored: {reason}") from None
        if restored.archived and not options["archives"]:
            self.stdout.write(f"positions 1 to {restored.archived} are archived, and their files were not verified:")
            for file in ArchivedRange.objects.order_by("pk").values_list("file", flat=True):
                self.stdout.write(f"  {file}")
            self.stdout.write("keep them, and verify them with manage.py integrity --archives FOLDER")
        self.stdout.write(f"restored up to position {restored.last_position}, and verified")
        self.stdout.write(list_epochs()[0].describe())
