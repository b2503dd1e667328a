"""`manage.py integrity`: verifies the journal and the rows that must match it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from statecore.operations import alarms, backup, integrity
from statecore_client.transparency.notes import InvalidNote, VerifierKey


class Command(BaseCommand):
    help = "Verify the hash chain, the rows, the constraints and the invariants. Exit code 1 on corruption."

    def add_arguments(self, parser: ArgumentParser) -> None:
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--recent", action="store_true", help="verify only the triggers and recent changes")
        scope.add_argument(
            "--archives", type=Path, nargs="?", const=settings.STATECORE_ARCHIVE_DIR, metavar="FOLDER",
            help="verify the files of archived events too, in this folder (STATECORE_ARCHIVE_DIR)",
        )  # fmt: skip
        parser.add_argument(
            "--against", type=Path, metavar="FILE",
            help="compare with a checkpoint, an export, a journal file or an archive file, and name the first position "
            "that differs",
        )  # fmt: skip
        parser.add_argument(
            "--key", metavar="VERIFIER_KEY", help="the public key of the checkpoint (that of this host)"
        )
        parser.add_argument("--json", action="store_true", help="print findings as JSON lines")

    def handle(self, *args: Any, **options: Any) -> None:
        archives = options["archives"]
        differences = _compare(options["against"], options["key"]) if options["against"] else []
        findings = [*differences, *self._check(archives, is_recent=options["recent"])]
        for finding in findings:
            self.stdout.write(json.dumps(finding.as_dict()) if options["json"] else str(finding))
        errors = sum(finding.severity == integrity.ERROR for finding in findings)
        if not options["json"]:
            self.stdout.write(f"{errors} errors, {len(findings) - errors} warnings")
        if errors:
            raise SystemExit(1)

    def _check(self, archives: Path | None, *, is_recent: bool) -> list[integrity.Finding]:
        """Checks, and opens or resolves the alerts of the rule `integrity`."""
        if is_recent:
            findings = integrity.check_recent()
            alarms.raise_alarms(findings)
        else:
            findings = integrity.check_all(archives)
            alarms.update_after_complete_check(findings)
        return findings


def _compare(path: Path, key: str | None) -> list[integrity.Finding]:
    """Compares, and opens or resolves the alert about the copy."""
    try:
        differences = backup.compare(path, VerifierKey.parse(key) if key else None)
    except (backup.UnusableCopy, InvalidNote) as error:
        raise CommandError(str(error)) from None
    alarms.update_after_comparison(differences)
    return differences
