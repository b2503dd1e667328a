"""`manage.py executors`: the work that only executors do, and taking it back."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from statecore.kernel.clock import format_utc
from statecore.records import ExecutorWork, executor_work


class Command(BaseCommand):
    help = "Show which work executors have declared, or take all declarations back once no executor runs any more."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--off",
            action="store_true",
            help="no executor runs any more: integrators do their work",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["off"]:
            self.stdout.write(f"{executor_work.withdraw()} declarations taken back")
            return
        for each in ExecutorWork.objects.order_by("pk"):
            self.stdout.write(f"{each.setting}\t{each.host}\t{format_utc(each.declared_at)}")
