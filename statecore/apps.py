"""The Django application: installs the triggers after each migrate and refuses a broken declaration at start-up."""

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate


class StatecoreConfig(AppConfig):
    name = "statecore"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .kernel import checks  # noqa: F401 - registers the start-up checks

        post_migrate.connect(_install_triggers, sender=self)


def _install_triggers(using: str, **_: Any) -> None:
    from .kernel import triggers

    triggers.install(connections[using])
