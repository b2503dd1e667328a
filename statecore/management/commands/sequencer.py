"""The sequencer as a process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from statecore import sinks
from statecore.sequencer import Sequencer


class Command(BaseCommand):
    help = "Number committed events and feed the sinks; one leads, the others stand by. TERM stops it."
    # They were made before anything started.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        sequencer = Sequencer(sinks.all_sinks())
        sequencer.obey_signals()
        sequencer.run()
