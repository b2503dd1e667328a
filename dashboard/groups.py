"""The groups viewer, operator, supervisor and display with their permissions, created by every `migrate`.

Permissions of a machine that no group knows yet are added by the same rule, so a new machine needs no change here.
Permissions that an administrator removed stay removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, Permission

from statecore.kernel import registry

VIEWER, OPERATOR, SUPERVISOR, DISPLAY = "viewer", "operator", "supervisor", "display"
ACTIONS = {
    VIEWER: ("view",),
    OPERATOR: ("view", "operate"),
    SUPERVISOR: ("view", "operate", "override"),
    DISPLAY: ("view",),  # what the board needs; the middleware limits a display to the wall
}
DISPLAY_ACTIONS = {VIEWER: ("view",), OPERATOR: ("view",), SUPERVISOR: ("view", "add", "change")}
VIEW_ACCOUNTS = "view_accounts"
RECORDS = (
    "alert",
    "event",
    "phase",
    "patch",
    "compensationstep",
    "position",
    "archivedrange",
    "signedcheckpoint",
)


def create_groups(using: str = "default") -> None:
    permissions = {each.codename: each for each in _project_permissions(using)}
    known = set(Permission.objects.using(using).filter(group__name__in=ACTIONS).values_list("codename", flat=True))
    for name, actions in ACTIONS.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        wanted = set(_machine_codenames(actions, set() if is_new else known))
        wanted |= set(_record_codenames(name)) if is_new else set()
        if name == SUPERVISOR and VIEW_ACCOUNTS not in known:
            wanted.add(VIEW_ACCOUNTS)
        _grant(group, [permissions[code] for code in sorted(wanted) if code in permissions])


def _grant(group: Group, granted: list[Permission]) -> None:
    """Without the signals that the account journal records: the groups of a version are no change by an account."""
    through: Any = Group.permissions.through
    for permission in granted:
        through.objects.using(group._state.db).get_or_create(group=group, permission=permission)


def _project_permissions(using: str) -> Iterable[Permission]:
    return Permission.objects.using(using).filter(content_type__app_label__in=("statecore", "dashboard"))


def _machine_codenames(actions: Iterable[str], known: set[str]) -> Iterable[str]:
    for flow in registry.flows():
        noun = flow.model._meta.model_name
        if f"view_{noun}" not in known:
            yield from (f"{action}_{noun}" for action in actions)


def _record_codenames(group: str) -> Iterable[str]:
    if group == DISPLAY:
        return
    yield from (f"view_{record}" for record in RECORDS)
    yield from (f"{action}_display" for action in DISPLAY_ACTIONS[group])
    if group != VIEWER:
        yield from ("change_alert", "add_phase", "change_phase")
