"""Changes of the accounts of people by an administrator. Django's signals write the entries of the account journal.

An administrator changes no account that has more rights, and not its own: that would be a way to raise its rights, or
to lock everyone out. One active superuser always remains.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from django.contrib.auth.models import User
from django.db import transaction

from ..kernel.actors import Actor, Kind
from ..kernel.refusals import AlreadyInState, Invalid, NotFound, PermissionDenied
from ..records import account_names, one_time_password
from .administration import (
    find_roles,
    permissions_of,
    permissions_of_user,
    require_administrator,
    require_rights,
)
from .caller import acting_as

PASSWORD_BYTES = 15


def create(username: str, roles: Iterable[str], *, actor: Actor) -> tuple[User, str]:
    """Create an account and return it with its one-time password, which is not stored."""
    require_administrator(actor)
    if error := account_names.username_error(username, User.objects.all()):
        raise Invalid({"username": [error]})
    groups = find_roles(roles)
    require_rights(actor, permissions_of(groups), "the account")
    user, password = User(username=username), secrets.token_urlsafe(PASSWORD_BYTES)
    user.set_unusable_password()
    with acting_as(actor), transaction.atomic():
        user.save()
        user.groups.set(groups)
        one_time_password.hand_out(user, password)
    return user, password


def set_roles(user_id: int, roles: Iterable[str], *, is_superuser: bool, actor: Actor) -> User:
    groups = find_roles(roles)
    require_rights(actor, permissions_of(groups), "the account")

    def store(user: User) -> None:
        if user.is_superuser is not is_superuser:
            require_superuser(actor)
            # The admin shows its read-only pages to staff.
            user.is_superuser = user.is_staff = is_superuser
            user.save(update_fields=["is_superuser", "is_staff"])
        user.groups.set(groups)
        _require_remaining_superuser()

    return change_locked(user_id, actor, store)


def deactivate(user_id: int, *, actor: Actor) -> User:
    """Refuse logins, sessions and tokens from now on; service accounts of the user continue."""

    def store(user: User) -> None:
        _set_active(user, is_active=False)
        _require_remaining_superuser()

    return change_locked(user_id, actor, store)


def activate(user_id: int, *, actor: Actor) -> User:
    return change_locked(user_id, actor, lambda user: _set_active(user, is_active=True))


def reset_password(user_id: int, *, actor: Actor) -> str:
    """Set a one-time password and return it; all sessions of the user end with the old one."""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    change_locked(user_id, actor, lambda user: one_time_password.hand_out(user, password))
    return password


def change_locked(user_id: int, actor: Actor, store: Callable[[User], object]) -> User:
    """Run a change under the locks of the account and of all superusers, after the guards of this module."""
    require_administrator(actor)
    with acting_as(actor), transaction.atomic():
        list(User.objects.select_for_update().filter(is_superuser=True).order_by("pk").values_list("pk"))
        people = User.objects.select_for_update(of=("self",)).filter(service_account=None)
        user = people.filter(pk=user_id).first()
        if user is None:
            raise NotFound(f"there is no person with the account {user_id}")
        require_administrable(user, actor)
        store(user)
    return user


def require_administrable(user: User, actor: Actor) -> None:
    """Refuse the own account, and one with rights that the administrator lacks."""
    if user.pk == actor.account:
        raise PermissionDenied("administrators do not change their own account: another one does", required="other")
    if user.is_superuser:
        require_superuser(actor)
    require_rights(actor, permissions_of_user(user), user.get_username())


def require_superuser(actor: Actor) -> None:
    if actor.kind is Kind.SYSTEM:
        return
    superusers = User.objects.filter(is_superuser=True, is_active=True)
    if actor.account is None or not superusers.filter(pk=actor.account).exists():
        raise PermissionDenied("only a superuser changes superusers", required="superuser")


def _set_active(user: User, *, is_active: bool) -> None:
    if user.is_active is is_active:
        raise AlreadyInState(f"{user.get_username()} is {'active' if is_active else 'deactivated'} already")
    user.is_active = is_active
    user.save(update_fields=["is_active"])


def _require_remaining_superuser() -> None:
    """After the change, in its transaction."""
    if not User.objects.filter(is_superuser=True, is_active=True).exists():
        raise PermissionDenied("this is the last active superuser: make another one first", required="superuser")
