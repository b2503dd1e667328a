"""`manage.py export`: writes a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from statecore.accounts.caller import get_current_actor
from statecore.journal import accounts
from statecore.operations import backup


class Command(BaseCommand):
    help = "Write the events since the last export, every table and a manifest into a new folder."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--to", type=Path, help="folder of the exports (default: STATECORE_BACKUP_DIR)")
        parser.add_argument("--all", action="store_true", help="export every event, also those of earlier exports")
        parser.add_argument(
            "--plain", action="store_true", help="leave out accounts and encryption although there is a passphrase"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        actor = get_current_actor()
        accounts.record(accounts.Action.EXPORTED, accounts.Account.of_actor(actor), actor=actor)
        to = options["to"] or settings.STATECORE_BACKUP_DIR
        folder = backup.export(to, everything=options["all"], plain=options["plain"])
        self.stdout.write(str(folder))
