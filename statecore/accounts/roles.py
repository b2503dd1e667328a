"""Roles: groups with permissions. An administrator gives and takes only permissions that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import QuerySet

from ..journal import accounts
from ..kernel.actors import NAME_LENGTH, Actor
from ..kernel.refusals import Invalid, NotFound, PermissionDenied
from ..kernel.validation import text_error
from .administration import permissions_of, require_administrator, require_rights
from .caller import acting_as


class Change(NamedTuple):
    """The permissions that a role would gain and lose."""

    added: list[Permission]
    removed: list[Permission]


def get(role_id: int) -> Group:
    if (found := Group.objects.filter(pk=role_id).first()) is None:
        raise NotFound(f"there is no role {role_id}")
    return found


def plan_change(role: Group, wanted: Iterable[int], offered: QuerySet[Permission]) -> Change:
    """Return what changes among the permissions that were offered; others that the role has stay."""
    chosen, held = set(wanted), set(role.permissions.values_list("pk", flat=True))
    by_id = {each.pk: each for each in offered.select_related("content_type")}
    added = [each for pk, each in by_id.items() if pk in chosen - held]
    removed = [each for pk, each in by_id.items() if pk in held - chosen]
    return Change(added, removed)


def create(name: str, *, actor: Actor) -> Group:
    """Create a role without permissions."""
    require_administrator(actor)
    name = name.strip()
    if not name or text_error(name, NAME_LENGTH):
        raise Invalid({"name": [f"must be 1 to {NAME_LENGTH} characters."]})
    if Group.objects.filter(name__iexact=name).exists():
        raise Invalid({"name": ["A role with this name exists already."]})
    with transaction.atomic():
        role = Group.objects.create(name=name)
        accounts.record(accounts.Action.CREATED, accounts.Account.of_group(role), actor=actor)
    return role


def change(role_id: int, planned: Callable[[Group], Change], *, actor: Actor) -> Change:
    """Add and remove permissions; refused for a role with permissions that the administrator lacks."""
    require_administrator(actor)
    with acting_as(actor), transaction.atomic():
        Group.objects.select_for_update().filter(pk=role_id).first()
        role = get(role_id)
        found = planned(role)
        require_rights(actor, permissions_of([role]), f"the role {role.name}")
        require_rights(actor, map(_codename, found.added), f"the change of {role.name}")
        role.permissions.add(*found.added)
        role.permissions.remove(*found.removed)
    return found


def delete(role_id: int, *, actor: Actor) -> Group:
    """Delete a role that no account has."""
    require_administrator(actor)
    with acting_as(actor), transaction.atomic():
        Group.objects.select_for_update().filter(pk=role_id).first()
        role = get(role_id)
        require_rights(actor, permissions_of([role]), f"the role {role.name}")
        if role.user_set.exists():
            raise PermissionDenied(f"accounts have the role {role.name}: take it from them first", required="unused")
        role.delete()
    return role


def _codename(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"
