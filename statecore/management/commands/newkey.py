"""`manage.py newkey`: begins with another key of the journal after the old one was lost."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statecore.journal.home_files import set_checkpoint_aside
from statecore.journal.signing import SigningFailed, create_key, find_signer


class Command(BaseCommand):
    help = "Create another key of the journal after the old one was lost, and print its public key."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if signer := find_signer():
                raise CommandError(f"there is a key: {signer.verifier}")
        except SigningFailed as error:
            raise CommandError(str(error)) from None
        key = create_key()
        set_checkpoint_aside()
        self.stdout.write(str(key.verifier))
