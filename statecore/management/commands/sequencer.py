"""`manage.py sequencer`: runs the sequencer process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from statecore.delivery import sinks
from statecore.delivery.sequencer import Sequencer
from statecore.operations.process_reporter import ProcessReporter, get_max_memory
from statecore.operations.watch import Watch


class Command(BaseCommand):
    help = "Number committed events and deliver them to the sinks. One process leads, others stand by."
    # The launcher has run the checks already.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        ProcessReporter("sequencer").start(max_memory=get_max_memory())
        Watch("sequencer").start()
        sequencer = Sequencer(sinks.create_sinks())
        sequencer.stop_on_signals()
        sequencer.run()
