"""Writes the entries for changes that Django reports: users, rights, second factors, logins and logouts.

The receivers run inside the transaction of the change. Django saves a row and sends its signal without one, so
`connect` wraps the saving of these models in a transaction. QuerySet.update sends no signal: code that uses it on
these models records its own entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from django.http import HttpRequest

from ..journal.accounts import UNKNOWN, Account, Action, record
from ..kernel.actors import Actor, Kind
from ..records import Passkey, one_time_password
from .caller import get_current_actor, get_request_actor

if TYPE_CHECKING:
    from django_otp.plugins.otp_static.models import StaticDevice
    from django_otp.plugins.otp_totp.models import TOTPDevice

# Not the e-mail address: it gives no rights, and the journal keeps what it is given for good.
FIELDS = ("username", "is_active", "is_staff", "is_superuser")
ADDED, REMOVED = "added", "removed"
M2M_ACTIONS = {"post_add": ADDED, "post_remove": REMOVED, "pre_clear": REMOVED}


def connect() -> None:
    _save_in_transactions(User)
    pre_save.connect(_remember_stored_user, sender=User)
    post_save.connect(_record_user, sender=User)
    post_delete.connect(_record_deleted_user, sender=User)
    m2m_changed.connect(_record_groups, sender=User.groups.through)
    m2m_changed.connect(_record_permissions, sender=User.user_permissions.through)
    m2m_changed.connect(_record_permissions, sender=Group.permissions.through)
    post_delete.connect(_record_deleted_group, sender=Group)
    user_logged_in.connect(_record_login)
    user_logged_out.connect(_record_logout)
    user_login_failed.connect(_record_failed_login)
    _connect_passkeys()
    # A project with another login need not have these.
    if apps.is_installed("django_otp.plugins.otp_totp"):
        _connect_second_factors()
    if apps.is_installed("axes"):
        _connect_lockouts()


def _save_in_transactions(model: type[Model]) -> None:
    setattr(model, "save_base", transaction.atomic(model.save_base))  # noqa: B010 - mypy refuses the assignment


def _connect_second_factors() -> None:
    from django_otp.plugins.otp_static.models import StaticDevice
    from django_otp.plugins.otp_totp.models import TOTPDevice

    for model in (TOTPDevice, StaticDevice):
        _save_in_transactions(model)
    pre_save.connect(_remember_confirmation, sender=TOTPDevice)
    post_save.connect(_record_enrolment, sender=TOTPDevice)
    post_delete.connect(_record_removed_factor, sender=TOTPDevice)
    post_save.connect(_record_recovery_codes, sender=StaticDevice)


def _connect_passkeys() -> None:
    _save_in_transactions(Passkey)
    post_save.connect(_record_passkey, sender=Passkey)
    post_delete.connect(_record_removed_passkey, sender=Passkey)


def _connect_lockouts() -> None:
    from axes.signals import user_locked_out

    user_locked_out.connect(_record_lockout)


# Users


def _remember_stored_user(sender: Any, instance: User, **_: Any) -> None:
    """Keep the stored values, to find out what the save changes."""
    stored = User.objects.filter(pk=instance.pk).values("password", *FIELDS).first()
    instance.__dict__["_stored"] = stored


def _record_user(sender: Any, instance: User, created: bool, update_fields: Any, **_: Any) -> None:
    stored, account, actor = instance.__dict__.pop("_stored", None), Account.of_user(instance), get_current_actor()
    if created or stored is None:
        facts = {name: getattr(instance, name) for name in FIELDS}
        record(Action.CREATED, account, actor=actor, facts=facts)
        return
    saved = set(FIELDS) if update_fields is None else set(FIELDS) & set(update_fields)
    new = {name: getattr(instance, name) for name in FIELDS if name in saved}
    if changed := {name: f"{stored[name]} → {value}" for name, value in new.items() if stored[name] != value}:
        record(Action.CHANGED, account, actor=actor, facts=changed)
    if instance.password != stored["password"] and (update_fields is None or "password" in update_fields):
        # Django stores a stronger hash of the same password at a login; a new password was set by set_password.
        is_chosen = instance.__dict__.get("_password") is not None or not instance.has_usable_password()
        is_new = is_chosen or update_fields is None
        record(Action.PASSWORD_CHANGED if is_new else Action.PASSWORD_REHASHED, account, actor=actor)
        if is_new:
            one_time_password.forget(instance)


def _record_deleted_user(sender: Any, instance: User, **_: Any) -> None:
    record(Action.DELETED, Account.of_user(instance), actor=get_current_actor())


# Rights


def _record_groups(sender: Any, instance: Any, action: str, reverse: bool, pk_set: set[int] | None, **_: Any) -> None:
    """Record which groups a user joined or left, also if the change was made from the side of the group."""
    if action not in M2M_ACTIONS:
        return
    if reverse:
        members = instance.user_set.all() if pk_set is None else User.objects.filter(pk__in=pk_set)
        for user in members:
            _record_rights(Action.GROUPS_CHANGED, Account.of_user(user), action, [instance.name])
        return
    groups = instance.groups.all() if pk_set is None else Group.objects.filter(pk__in=pk_set)
    _record_rights(Action.GROUPS_CHANGED, Account.of_user(instance), action, [group.name for group in groups])


def _record_permissions(
    sender: Any, instance: Any, action: str, reverse: bool, model: Any, pk_set: set[int] | None, **_: Any
) -> None:
    """Record the permissions that a user or a group got or lost, also if the change was made from their side."""
    if action not in M2M_ACTIONS:
        return
    if reverse:
        held = instance.user_set if model is User else instance.group_set
        for owner in held.all() if pk_set is None else model.objects.filter(pk__in=pk_set):
            _record_rights(Action.PERMISSIONS_CHANGED, _account_of(owner), action, [_codename(instance)])
        return
    own = instance.user_permissions if isinstance(instance, User) else instance.permissions
    changed = own.all() if pk_set is None else Permission.objects.filter(pk__in=pk_set)
    names = [_codename(each) for each in changed.select_related("content_type")]
    _record_rights(Action.PERMISSIONS_CHANGED, _account_of(instance), action, names)


def _record_rights(action: Action, account: Account, change: str, names: Iterable[str]) -> None:
    if names := sorted(names):
        record(action, account, actor=get_current_actor(), facts={M2M_ACTIONS[change]: names})


def _record_deleted_group(sender: Any, instance: Group, **_: Any) -> None:
    record(Action.DELETED, Account.of_group(instance), actor=get_current_actor())


def _account_of(owner: Any) -> Account:
    return Account.of_user(owner) if isinstance(owner, User) else Account.of_group(owner)


def _codename(permission: Any) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"


# Second factors


def _remember_confirmation(sender: Any, instance: TOTPDevice, **_: Any) -> None:
    instance.__dict__["_was_confirmed"] = sender.objects.filter(pk=instance.pk, confirmed=True).exists()


def _record_enrolment(sender: Any, instance: TOTPDevice, **_: Any) -> None:
    if instance.confirmed and not instance.__dict__.pop("_was_confirmed", False):
        _record_factor(Action.SECOND_FACTOR_ENROLLED, instance)


def _record_removed_factor(sender: Any, instance: TOTPDevice, **_: Any) -> None:
    if instance.confirmed:
        _record_factor(Action.SECOND_FACTOR_REMOVED, instance)


def _record_recovery_codes(sender: Any, instance: StaticDevice, created: bool, **_: Any) -> None:
    if created:
        _record_factor(Action.RECOVERY_CODES_CREATED, instance)


def _record_passkey(sender: Any, instance: Passkey, created: bool, **_: Any) -> None:
    if created:
        _record_factor(Action.SECOND_FACTOR_ENROLLED, instance, {"passkey": instance.name})


def _record_removed_passkey(sender: Any, instance: Passkey, **_: Any) -> None:
    _record_factor(Action.SECOND_FACTOR_REMOVED, instance, {"passkey": instance.name})


def _record_factor(action: Action, device: Any, facts: dict[str, Any] | None = None) -> None:
    """The caller that enrols during a login has not logged in yet: it is known by its password."""
    actor = get_current_actor()
    if actor.account is None and actor.kind is Kind.OPERATOR:
        actor = Actor.operator(device.user, actor.channel, actor.address)
    record(action, Account.of_user(device.user), actor=actor, facts=facts)


# Logins


def _record_login(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    issuer, actor = user.__dict__.get("_issuer"), get_request_actor(request, user)
    record(Action.LOGGED_IN, Account.of_user(user), actor=actor, facts={"issuer": issuer} if issuer else {})
    if settings.STATECORE_SIGN_IN_ONLY and issuer is None and user.has_usable_password():
        record(Action.BREAK_GLASS_USED, Account.of_user(user), actor=actor)


def _record_logout(sender: Any, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        record(Action.LOGGED_OUT, Account.of_user(user), actor=get_request_actor(request, user))


def _record_failed_login(
    sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    """Attempts during a lockout are refused unread and leave no entry: they could fill the journal."""
    if request is not None and not getattr(request, "axes_locked_out", False):
        account = _find_account(credentials.get("username"))
        record(Action.LOGIN_FAILED, account, actor=get_request_actor(request))


def _record_lockout(sender: Any, request: HttpRequest, username: str | None, **_: Any) -> None:
    """Record the attempt that caused the lockout; axes repeats its signal for every attempt that follows."""
    if getattr(request, "axes_failures_since_start", None):
        account = _find_account(username)
        record(Action.LOCKED_OUT, account, actor=get_request_actor(request))


def _find_account(username: Any) -> Account:
    """Return the account with this name. An unknown name is not recorded: it may be a password in the wrong field."""
    user = User.objects.filter(username=str(username or "").replace("\0", "")).first()
    return Account.of_user(user) if user else UNKNOWN
