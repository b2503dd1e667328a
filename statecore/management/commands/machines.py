"""Shows the machines, checks their versions, writes everything that is generated from declarations."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statecore.derive import documents, versions
from statecore.kernel import registry


class Command(BaseCommand):
    help = "List the state machines; --json in full, --check the version bumps, --docs write what is generated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        ways = parser.add_mutually_exclusive_group()
        ways.add_argument("--json", action="store_true", help="every state and move, as GET machines/ tells them")
        ways.add_argument("--check", action="store_true", help="compare with the committed snapshot and pages")
        ways.add_argument(
            "--docs",
            action="store_true",
            help="write the pages and files that are read off declarations, and the snapshot",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"results": list(versions.describe().values())}, indent=2))
        elif options["check"]:
            self._check()
        elif options["docs"]:
            self._write_docs()
        else:
            self._print_table()

    def _print_table(self) -> None:
        rows = [("machine", "version", "states", "moves", "initial", "final")]
        rows += [
            (flow.entity_type, flow.version, str(len(flow.states)), str(len(flow.moves)), flow.initial,
             " ".join(sorted(flow.final)))
            for flow in registry.flows()
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def _check(self) -> None:
        self._refuse_unversioned()
        if outdated := documents.outdated():
            raise CommandError(f"out of date: {', '.join(outdated)}: run manage.py machines --docs")
        self.stdout.write(f"{len(registry.flows())} machines agree with the committed snapshot")

    def _write_docs(self) -> None:
        self._refuse_unversioned()
        for line in documents.write():
            self.stdout.write(line)

    def _refuse_unversioned(self) -> None:
        if problems := list(versions.unversioned_changes(versions.committed(), versions.describe())):
            raise CommandError("\n".join(problems))
