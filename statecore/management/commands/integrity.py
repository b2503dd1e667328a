"""`manage.py integrity`: verifies the journal and the rows that must match it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from statecore.operations import alarms, integrity


class Command(BaseCommand):
    help = "Verify the hash chain, the rows, the constraints and the invariants. Exit code 1 on corruption."

    def add_arguments(self, parser: ArgumentParser) -> None:
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--recent", action="store_true", help="verify only the triggers and recent changes")
        scope.add_argument(
            "--archives", type=Path, nargs="?", const=settings.STATECORE_ARCHIVE_DIR, metavar="FOLDER",
            help="verify the files of archived events too, in this folder (STATECORE_ARCHIVE_DIR)",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print findings as JSON lines")

    def handle(self, *args: Any, **options: Any) -> None:
        archives = options["archives"]
        findings = self._check(archives, is_recent=options["recent"])
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
