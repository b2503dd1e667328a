"""Prints the alert rules for Prometheus."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from statecore.devtools.reference import alerts


class Command(BaseCommand):
    help = "Print the alert rules for Prometheus, with links to the runbook at STATECORE_PUBLIC_URL."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(alerts.render_prometheus_rules(settings.STATECORE_PUBLIC_URL), ending="")
