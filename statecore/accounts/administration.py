"""Who may administer accounts. These are the guards of the console, of REST and of the commands.

Administrators have the permission `manage_accounts`. They give no rights and take over no account beyond their own
rights, so that the permission alone leads to no others; superusers have all rights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.db.models import QuerySet

from ..kernel.actors import NAME_LENGTH, Actor, Kind
from ..kernel.refusals import Invalid, PermissionDenied
from ..kernel.validation import text_error
from ..records.service_account import MANAGE_ACCOUNTS


def is_administrator(actor: Actor) -> bool:
    """Commands act as the system: their callers have a shell on the server."""
    return actor.kind is Kind.SYSTEM or (actor.kind is Kind.OPERATOR and actor.has_permission(MANAGE_ACCOUNTS))


def require_administrator(actor: Actor) -> None:
    if not is_administrator(actor):
        raise PermissionDenied(f"{actor.name} may not manage accounts", required=MANAGE_ACCOUNTS)


def require_rights(actor: Actor, permissions: Iterable[str], about: str) -> None:
    """Refuse to give, or to take over, rights that the actor lacks."""
    if actor.kind is Kind.SYSTEM:
        return
    if missing := sorted(each for each in permissions if not actor.has_permission(each)):
        some = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise PermissionDenied(f"{about} has rights that {actor.name} lacks: {some}", required=missing)


def permissions_of(groups: Iterable[Group]) -> set[str]:
    """Return the permissions of these roles, as `app.codename`."""
    return _names(Permission.objects.filter(group__in=list(groups)))


def permissions_of_user(user: User) -> set[str]:
    """Return the permissions of an account, also of one that is not active."""
    own = Permission.objects.filter(user=user) | Permission.objects.filter(group__user=user)
    return _names(Permission.objects.all() if user.is_superuser else own)


def _names(permissions: QuerySet[Any]) -> set[str]:
    return {f"{app}.{name}" for app, name in permissions.values_list("content_type__app_label", "codename")}


def find_roles(names: Iterable[str]) -> list[Group]:
    """Return the roles with these names; raises Invalid for unknown ones."""
    wanted = set(names)
    if any(text_error(name, NAME_LENGTH) for name in wanted):
        raise Invalid({"roles": [f"must be names of 1 to {NAME_LENGTH} characters."]})
    found = list(Group.objects.filter(name__in=wanted).order_by("name"))
    if unknown := sorted(wanted - {group.name for group in found}):
        raise Invalid({"roles": [f"there is no role {', '.join(unknown)}."]})
    return found
