"""Three groups of people, and what each may do; made by every migrate, never taken back from.

A machine no group has heard of is given to all three by the same rule, so that a new machine needs nothing here.
What somebody took away from a group stays away.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import Group, Permission

from statecore.kernel import registry

VIEWER, OPERATOR, SUPERVISOR = "viewer", "operator", "supervisor"
ACTIONS = {VIEWER: ("view",), OPERATOR: ("view", "operate"), SUPERVISOR: ("view", "operate", "override")}
SCREENS = {VIEWER: ("view",), OPERATOR: ("view",), SUPERVISOR: ("view", "add", "change")}
RECORDS = ("alert", "event", "phase", "patch", "compensationstep", "position", "seal", "retirement")


def make(using: str = "default") -> None:
    permissions = {each.codename: each for each in _of_this_project(using)}
    known = set(Permission.objects.using(using).filter(group__name__in=ACTIONS).values_list("codename", flat=True))
    for name, actions in ACTIONS.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        wanted = set(_of_machines(actions, known)) | (set(_of_records(name)) if is_new else set())
        group.permissions.add(*(permissions[code] for code in sorted(wanted) if code in permissions))


def _of_this_project(using: str) -> Iterable[Permission]:
    return Permission.objects.using(using).filter(content_type__app_label__in=("statecore", "dashboard"))


def _of_machines(actions: Iterable[str], known: set[str]) -> Iterable[str]:
    for flow in registry.flows():
        noun = flow.model._meta.model_name
        if f"view_{noun}" not in known:
            yield from (f"{action}_{noun}" for action in actions)


def _of_records(group: str) -> Iterable[str]:
    yield from (f"view_{record}" for record in RECORDS)
    yield from (f"{action}_screen" for action in SCREENS[group])
    if group != VIEWER:
        yield "change_alert"
