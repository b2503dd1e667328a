"""The groups viewer, operator, supervisor and display with their permissions, created by every `migrate`.

Each default permission is granted once: when its group is created, or by the first `migrate` of the version that
declares it. Permissions that an administrator removed therefore stay removed. A group that was deleted is created
anew with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db import connections

from statecore.kernel import registry
from statecore.records import DefaultGrant

VIEWER, OPERATOR, SUPERVISOR, DISPLAY = "viewer", "operator", "supervisor", "display"
ACTIONS = {
    VIEWER: ("view",),
    OPERATOR: ("view", "operate"),
    SUPERVISOR: ("view", "operate", "override", "waive"),
    DISPLAY: ("view",),  # what the board needs; the middleware limits a display to the wall
}
DISPLAY_ACTIONS = {VIEWER: ("view",), OPERATOR: ("view",), SUPERVISOR: ("view", "add", "change")}
VIEW_ACCOUNTS = "view_accounts"
RECORDS = (
    "alert",
    "event",
    "hold",
    "incident",
    "plantemplate",
    "schedule",
    "phase",
    "patch",
    "compensationstep",
    "position",
    "archivedrange",
    "signedcheckpoint",
)


def list_labels() -> set[str]:
    """Returns the applications that have permissions of the groups: ours, and those with machines of other packages."""
    return {"dashboard", *(flow.model._meta.app_label for flow in registry.flows())}


def list_codenames() -> set[str]:
    """Returns the permissions that at least one of the groups has by default."""
    return {codename for name in ACTIONS for codename in _default_codenames(name)}


def create_groups(using: str = "default") -> None:
    if DefaultGrant._meta.db_table not in connections[using].introspection.table_names():
        return  # after a part of the migrations
    permissions = {each.codename: each for each in _project_permissions(using)}
    granted = set(DefaultGrant.objects.using(using).values_list("group_name", "codename"))
    # The versions before this record granted what at least one of the groups has.
    earlier = set() if granted else _held_by_any_group(using)
    for name in ACTIONS:
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        for codename in sorted(_default_codenames(name) & permissions.keys()):
            if is_new or ((name, codename) not in granted and codename not in earlier):
                _grant(group, permissions[codename])
            DefaultGrant.objects.using(using).get_or_create(group_name=name, codename=codename)


def _held_by_any_group(using: str) -> set[str]:
    return set(Permission.objects.using(using).filter(group__name__in=ACTIONS).values_list("codename", flat=True))


def _default_codenames(group: str) -> set[str]:
    found = {f"{action}_{flow.model._meta.model_name}" for flow in registry.flows() for action in ACTIONS[group]}
    if group == DISPLAY:
        return found
    found |= {f"view_{record}" for record in RECORDS}
    found |= {f"{action}_display" for action in DISPLAY_ACTIONS[group]}
    if group != VIEWER:
        found |= {"change_alert", "change_incident", "add_hold", "change_hold", "add_phase", "change_phase"}
        found |= {f"{action}_webhook" for action in ("view", "add", "change", "delete")}
        # With the names of hosts.
        found.add("view_processreport")
        found |= {"add_plantemplate", "add_schedule", "change_schedule"}
    return found | {VIEW_ACCOUNTS} if group == SUPERVISOR else found


def _grant(group: Group, permission: Permission) -> None:
    """Without the signals that the account journal records: the groups of a version are no change by an account."""
    through: Any = Group.permissions.through
    through.objects.using(group._state.db).get_or_create(group=group, permission=permission)


def _project_permissions(using: str) -> Iterable[Permission]:
    return Permission.objects.using(using).filter(content_type__app_label__in=list_labels())
