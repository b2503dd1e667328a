"""Roles in plain words: what they allow for each machine and record, and which accounts have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from django.contrib.auth.models import Group, Permission
from django.db.models import Count, Q, QuerySet

from statecore.dashboard import groups, navigation
from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.records import Patch
from statecore.records.account_names import SERVICE_PREFIX

# The verbs of machines in the order of what they allow.
VERBS = {"view": "see", "operate": "operate", "override": "force", "waive": "waive"}
RECORD_VERBS = {"view": "see", "add": "create", "change": "change", "delete": "delete"}
# Permissions whose names do not say what they allow, with the heading under which they are listed.
NAMES = {
    "statecore.manage_accounts": ("Accounts", "manage accounts, roles and service accounts"),
    "statecore.view_accounts": ("Accounts", "see the account journal"),
    "statecore.view_token": ("Accounts", "see the tokens of others"),
    "statecore.change_token": ("Accounts", "revoke the tokens of others"),
    "statecore.archive_events": ("Events", "archive"),
}
OURS = ("statecore", "dashboard")
DIFFS = "Diffs"  # the records of patches, which are another thing than the machine


class Choice(NamedTuple):
    permission: Permission
    verb: str
    is_held: bool


class Line(NamedTuple):
    """What a role allows for one machine, or for one kind of record."""

    name: str
    choices: list[Choice]

    @property
    def held(self) -> str:
        return ", ".join(choice.verb for choice in self.choices if choice.is_held)


def list_offered() -> QuerySet[Permission]:
    """The permissions that pages and calls check, and all of other packages; a role keeps others that it has."""
    ours = Q(codename__in=groups.list_codenames() | {name.partition(".")[2] for name in NAMES})
    foreign = ~Q(content_type__app_label__in=OURS)
    found = Permission.objects.filter(ours | foreign, content_type__app_label__in=groups.list_labels())
    return found.select_related("content_type")


def list_roles() -> QuerySet[Group]:
    people, services = ~Q(user__username__startswith=SERVICE_PREFIX), Q(user__username__startswith=SERVICE_PREFIX)
    counted = Group.objects.annotate(
        people=Count("user", filter=people & Q(user__is_active=True), distinct=True),
        services=Count("user", filter=services & Q(user__is_active=True), distinct=True),
    )
    return counted.order_by("name").prefetch_related("permissions__content_type")


def list_members(role: Group) -> list[str]:
    return list(role.user_set.filter(is_active=True).order_by("username").values_list("username", flat=True))


def describe(held: Iterable[int]) -> tuple[list[Line], list[Line]]:
    """Return what these permissions allow: the machines in the order of the menu, then records."""
    held = set(held)
    by_codename = {_codename(each): each for each in list_offered()}
    machines = [
        _describe_machine(flow, by_codename, held) for flow in sorted(registry.flows(), key=navigation.menu_order)
    ]
    used = {choice.permission.pk for line in machines for choice in line.choices}
    rest = [each for each in by_codename.values() if each.pk not in used]
    return machines, _describe_records(rest, held)


def _describe_machine(flow: Flow, by_codename: Mapping[str, Permission], held: set[int]) -> Line:
    found = {verb: by_codename.get(flow.permission(action)) for action, verb in VERBS.items()}
    choices = [Choice(each, verb, each.pk in held) for verb, each in found.items() if each is not None]
    return Line(navigation.machine_name(flow), choices)


def _describe_records(permissions: list[Permission], held: set[int]) -> list[Line]:
    lines: dict[str, list[Choice]] = {}
    for each in permissions:
        name, verb = name_permission(each)
        lines.setdefault(name, []).append(Choice(each, verb, each.pk in held))
    return [Line(name, sorted(choices, key=_order)) for name, choices in sorted(lines.items())]


def _order(choice: Choice) -> tuple[int, str]:
    verbs = list(RECORD_VERBS.values())
    return verbs.index(choice.verb) if choice.verb in verbs else len(verbs), choice.verb


def name_permission(permission: Permission) -> tuple[str, str]:
    """`("Holds", "create")`."""
    if special := NAMES.get(_codename(permission)):
        return special
    action = permission.codename.partition("_")[0]
    model = permission.content_type.model_class()
    flow = next((flow for flow in registry.flows() if flow.model is model), None)
    if flow is not None:
        return navigation.machine_name(flow), VERBS.get(action, action)
    plural = str(model._meta.verbose_name_plural) if model else permission.content_type.model
    if model is Patch:
        plural = DIFFS
    return plural.capitalize(), RECORD_VERBS.get(action, action)


def summarize(role: Any) -> list[str]:
    """`see 13 machines`, `force 2 machines`: the role in a few words."""
    held = {_codename(each) for each in role.permissions.all()}
    found = []
    for action, verb in VERBS.items():
        count = sum(flow.permission(action) in held for flow in registry.flows())
        if count:
            found.append(f"{verb} {count} machine{'' if count == 1 else 's'}")
    return [*found, *(verb for codename, (name, verb) in NAMES.items() if codename in held and name == "Accounts")]


def _codename(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"
