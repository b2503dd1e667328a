"""`manage.py doctor`: checks the installation."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from statecore.operations import doctor
from statecore.operations.doctor import CheckResult

MARKS = {doctor.OK: "ok", doctor.WARNING: "warning", doctor.ERROR: "ERROR"}


class Command(BaseCommand):
    help = "Check the installation. Exit code 0 if all checks pass, 1 with warnings, 2 with errors."
    # The doctor reports what the system checks would, and must run on a broken installation too.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--only", action="append", default=[], choices=doctor.CHECKS, metavar="CHECK",
                            help=f"run only this check; may be repeated: {', '.join(doctor.CHECKS)}")  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        results = list(doctor.run_checks(options["only"]))
        worst = doctor.find_worst_level(results)
        if options["json"]:
            report = {"status": worst, "findings": [result.as_dict() for result in results]}
            self.stdout.write(json.dumps(report, indent=2))
        else:
            self._print(results)
        if worst != doctor.OK:
            raise SystemExit(doctor.LEVELS.index(worst))

    def _print(self, results: list[CheckResult]) -> None:
        width = max(len(result.check) for result in results)
        for result in results:
            self.stdout.write(f"{MARKS[result.level]:<8} {result.check:<{width}}  {result.message}")
            if result.action:
                self.stdout.write(f"{'':<8} {'':<{width}}  → {result.action}")
        counts = [sum(result.level == level for result in results) for level in (doctor.ERROR, doctor.WARNING)]
        self.stdout.write(f"{counts[0]} errors, {counts[1]} warnings")
