"""Reads a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statecore import backup


class Command(BaseCommand):
    help = "Load an export, and those it follows, into an empty database; kept only if everything verifies."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="an export, or a folder of exports: then the newest")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            last = backup.restore(options["folder"])
        except backup.CannotRestore as reason:
            raise CommandError(f"nothing was restored: {reason}") from None
        self.stdout.write(f"restored up to position {last}, and verified")
