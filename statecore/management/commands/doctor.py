"""Looks after the installation."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from statecore import doctor
from statecore.doctor import Finding
from statecore.doctor.finding import LEVELS

MARKS = {doctor.OK: "ok", doctor.WARNING: "warning", doctor.ERROR: "ERROR"}


class Command(BaseCommand):
    help = "Check everything that must hold. Exit code 0 when all is well, 1 with warnings, 2 with errors."
    # It says itself what these would say, and what is broken must not keep it from looking.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one object, for programs")
        parser.add_argument("--only", action="append", default=[], choices=doctor.CHECKS, metavar="CHECK",
                            help=f"may be repeated: {', '.join(doctor.CHECKS)}")  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        found = list(doctor.examine(options["only"]))
        worst = doctor.worst(found)
        if options["json"]:
            told = {"status": worst, "findings": [finding.as_dict() for finding in found]}
            self.stdout.write(json.dumps(told, indent=2))
        else:
            self._print(found)
        if worst != doctor.OK:
            raise SystemExit(LEVELS.index(worst))

    def _print(self, found: list[Finding]) -> None:
        width = max(len(finding.check) for finding in found)
        for finding in found:
            self.stdout.write(f"{MARKS[finding.level]:<8} {finding.check:<{width}}  {finding.says}")
            if finding.do:
                self.stdout.write(f"{'':<8} {'':<{width}}  → {finding.do}")
        counts = [sum(finding.level == level for finding in found) for level in (doctor.ERROR, doctor.WARNING)]
        self.stdout.write(f"{counts[0]} errors, {counts[1]} warnings")
