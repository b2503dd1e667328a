"""`manage.py webhooks`: runs the process that sends webhooks."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from statecore.delivery.webhooks.process import Deliverer
from statecore.operations.process_reporter import ProcessReporter, get_max_memory
from statecore.operations.watch import Watch


class Command(BaseCommand):
    help = "Send webhooks to their receivers. Any number of these processes may run side by side."
    # The launcher has run the checks already.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        ProcessReporter("webhooks").start(max_memory=get_max_memory())
        Watch("webhooks").start()
        Deliverer().run()
