"""Renames screens to displays, with their permissions and accounts, and gives the accounts a group of their own."""

from typing import Any

from django.conf import settings
from django.db import migrations

ACTIONS = ("view", "add", "change")
# The permissions of viewers that the board does not need; the remaining ones are those to view machines.
NOT_FOR_DISPLAYS = (
    *("alert", "event", "phase", "patch", "compensationstep", "position", "signedcheckpoint", "witness", "display"),
    *("retirement", "archivedrange"),  # the old and the new name
)


def rename_permissions(apps: Any, editor: Any) -> None:
    _rename_permissions(apps, editor, "screen", "display")


def restore_permissions(apps: Any, editor: Any) -> None:
    _rename_permissions(apps, editor, "display", "screen")


def _rename_permissions(apps: Any, editor: Any, old: str, new: str) -> None:
    permissions = apps.get_model("auth", "Permission").objects.using(editor.connection.alias)
    for action in ACTIONS:
        found = permissions.filter(content_type__app_label="dashboard", codename=f"{action}_{old}")
        found.update(codename=f"{action}_{new}", name=f"Can {action} {new}")


def rename_accounts(apps: Any, editor: Any) -> None:
    """A display was a viewer, and could open every page of the console."""
    alias = editor.connection.alias
    paired = apps.get_model("dashboard", "Display").objects.using(alias).exclude(user=None).select_related("user")
    if not paired.exists():
        return
    group = _create_group(apps, alias)
    for display in paired:
        display.user.username = f"display-{display.pk}"
        display.user.save(update_fields=["username"])
        display.user.groups.set([group])


def _create_group(apps: Any, alias: str) -> Any:
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    group, _is_new = apps.get_model("auth", "Group").objects.using(alias).get_or_create(name="display")
    of_viewers = permissions.filter(group__name="viewer", codename__startswith="view_")
    group.permissions.set(of_viewers.exclude(codename__in=[f"view_{name}" for name in NOT_FOR_DISPLAYS]))
    return group


class Migration(migrations.Migration):
    safe_because = "No version was released with the old names; a web process of the previous code only loses displays."

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("dashboard", "0003_selection_job"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RenameModel("Screen", "Display"),
        migrations.RenameField("display", "asked_at", "requested_at"),
        migrations.RenameField("display", "asked_from", "requested_from"),
        migrations.RunPython(rename_permissions, restore_permissions),
        migrations.RunPython(rename_accounts, migrations.RunPython.noop),
    ]
