"""The Django application of the console."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DashboardConfig(AppConfig):
    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(_make_groups, sender=self)


def _make_groups(using: str, **_: Any) -> None:
    """Not in a migration: Django makes the permissions themselves only after the migrations."""
    from . import groups

    groups.make(using)
