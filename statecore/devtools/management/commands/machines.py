"""Lists the machines, checks their versions and writes the generated documentation."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statecore.devtools import documents, machine_versions
from statecore.devtools.markdown import Undocumented
from statecore.kernel import registry


class Command(BaseCommand):
    help = "List the state machines, check their versions, or write the generated documentation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        modes = parser.add_mutually_exclusive_group()
        modes.add_argument("--json", action="store_true", help="print all states and transitions like GET machines/")
        modes.add_argument(
            "--check", action="store_true", help="compare with the committed snapshot and generated files"
        )
        modes.add_argument(
            "--docs",
            action="store_true",
            help="write the snapshot and all generated files",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options)
        except Undocumented as error:
            raise CommandError(str(error)) from None

    def _handle(self, options: dict[str, Any]) -> None:
        if options["json"]:
            machines = machine_versions.describe_machines().values()
            # `moves` is the deprecated name of `transitions`, as in the API.
            results = [{**machine, "moves": machine["transitions"]} for machine in machines]
            self.stdout.write(json.dumps({"results": results}, indent=2))
        elif options["check"]:
            self._check()
        elif options["docs"]:
            self._write_docs()
        else:
            self._print_table()

    def _print_table(self) -> None:
        rows = [("machine", "version", "states", "transitions", "initial", "final")]
        rows += [
            (flow.entity_type, flow.version, str(len(flow.states)), str(len(flow.transitions)), flow.initial,
             " ".join(sorted(flow.final)))
            for flow in registry.flows()
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def _check(self) -> None:
        self._refuse_unversioned()
        if outdated := documents.find_outdated():
            raise CommandError(f"out of date: {', '.join(outdated)}: run manage.py machines --docs")
        self.stdout.write(f"{len(registry.flows())} machines agree with the committed snapshot")

    def _write_docs(self) -> None:
        self._refuse_unversioned()
        for line in documents.write_documents():
            self.stdout.write(line)

    def _refuse_unversioned(self) -> None:
        if problems := list(
            machine_versions.find_unversioned_changes(
                machine_versions.read_snapshot(), machine_versions.describe_machines()
            )
        ):
            raise CommandError("\n".join(problems))
