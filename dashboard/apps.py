"""The Django application of the console."""

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class DashboardConfig(AppConfig):
    name = "statecore.dashboard"
    label = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from . import groups

        user_logged_in.connect(_note_login)
        # Django creates the permissions of one application at a time, and those of other packages after ours.
        for label in groups.list_labels() - {"statecore"}:
            post_migrate.connect(_create_groups, sender=apps.get_app_config(label))


def _create_groups(using: str, **_: Any) -> None:
    """Not a migration, because Django creates permissions only after all migrations."""
    from . import groups

    groups.create_groups(using)


def _note_login(**details: Any) -> None:
    """Imported at the first login, because the second factor takes long to import."""
    from . import one_time_passwords

    one_time_passwords.note_login(**details)
