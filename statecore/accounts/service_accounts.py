"""Changes of service accounts and their tokens, each an entry of the account journal.

Administrators create and change them; the owner also issues, rotates and revokes their tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from ..journal import accounts
from ..kernel.actors import NAME_LENGTH, Actor
from ..kernel.clock import now, rfc3339
from ..kernel.refusals import AlreadyInState, DuplicateId, Invalid, NotFound, PermissionDenied
from ..kernel.validation import text_error
from ..records import service_account as records
from ..records import token as token_records
from ..records.account_names import SERVICE_PREFIX, is_username
from ..records.service_account import NAME, PURPOSE_LENGTH, ServiceAccount
from ..records.token import Token
from .administration import (
    find_roles,
    is_administrator,
    permissions_of,
    permissions_of_user,
    require_administrator,
    require_rights,
)
from .caller import acting_as

DEFAULT_LIFETIME, LONGEST_LIFETIME = timedelta(days=90), timedelta(days=365)
DEFAULT_OVERLAP = timedelta(days=1)


def list_visible(account: int | None, *, is_admin: bool) -> list[ServiceAccount]:
    """Return all for an administrator, and for others those that they own."""
    rows = records.with_tokens()
    return list(rows if is_admin else rows.filter(owner_id=account))


def get(name: str) -> ServiceAccount:
    if (found := records.find(name)) is None:
        raise NotFound(f"there is no service account {name!r}")
    return found


def create(
    name: str,
    *,
    owner: str,
    purpose: str,
    roles: Iterable[str] = (),
    expires_at: datetime | None = None,
    actor: Actor,
) -> ServiceAccount:
    """Create a service account without tokens. Raises Invalid, DuplicateId, and PermissionDenied for foreign rights."""
    require_administrator(actor)
    if not NAME.fullmatch(name):
        raise Invalid({"id": ["must be 1 to 64 lower-case letters, digits, dots, dashes or underscores."]})
    fields = _read_fields({"owner": owner, "purpose": purpose, "roles": roles, "expires_at": expires_at}, actor)
    groups = fields.pop("roles")
    user = User(username=f"{SERVICE_PREFIX}{name}")
    if is_username(user.username):
        raise DuplicateId(f"there is a service account {name!r} already", id=name)
    made = ServiceAccount(user=user, created_by=actor.name, **fields)
    with acting_as(actor), transaction.atomic():
        user.set_unusable_password()
        user.save()
        user.groups.set(groups)
        made.user = user
        made.save(force_insert=True)
        _record(accounts.Action.SERVICE_ACCOUNT_CREATED, made, actor, **_describe(made))
    return get(name)


def change(name: str, given: Mapping[str, Any], *, actor: Actor) -> ServiceAccount:
    """Change owner, purpose, roles or end, whichever are given. An earlier end also ends its tokens earlier."""
    require_administrator(actor)
    fields = _read_fields(given, actor)

    def store(account: ServiceAccount) -> None:
        # Also for a new owner, who could otherwise issue a token with rights that the administrator lacks.
        require_rights(actor, permissions_of_user(account.user), str(account))
        if (groups := fields.pop("roles", None)) is not None:
            account.user.groups.set(groups)
        before = _describe(account)
        for field, value in fields.items():
            setattr(account, field, value)
        account.save()
        _shorten_tokens(account)
        changed = {field: f"{before[field]} → {value}" for field, value in _describe(account).items()
                   if value != before[field]}  # fmt: skip
        if changed:
            _record(accounts.Action.SERVICE_ACCOUNT_CHANGED, account, actor, **changed)

    return _change_locked(name, actor, store)


def disable(name: str, *, actor: Actor) -> ServiceAccount:
    """Refuse its tokens from now on; the owner may do this too, for a token that has leaked."""
    _require_responsible(get(name), actor)
    return _change_locked(name, actor, lambda account: _set_active(account, is_active=False))


def enable(name: str, *, actor: Actor) -> ServiceAccount:
    require_administrator(actor)

    def store(account: ServiceAccount) -> None:
        require_rights(actor, permissions_of_user(account.user), str(account))
        _set_active(account, is_active=True)

    return _change_locked(name, actor, store)


def issue_token(name: str, scope: str, *, lifetime: timedelta | None = None, actor: Actor) -> tuple[Token, str]:
    """Create a token and return it with its text, which is not stored."""
    issued: list[tuple[Token, str]] = []

    def issue(account: ServiceAccount) -> None:
        _require_token_allowed(account, actor)
        expires_in = _limit_lifetime(account, DEFAULT_LIFETIME if lifetime is None else lifetime)
        token_name = token_records.next_name(account.user.username)
        issued.append(token_records.make(token_name, account.user, scope, expires_in=expires_in, by=actor))

    _change_locked(name, actor, issue)
    return issued[0]


def rotate_token(
    name: str, prefix: str, *, overlap: timedelta = DEFAULT_OVERLAP, lifetime: timedelta | None = None, actor: Actor
) -> tuple[Token, str]:
    """Create a token beside the one with this prefix, which ends after the overlap."""
    rotated: list[tuple[Token, str]] = []

    def rotate(account: ServiceAccount) -> None:
        _require_token_allowed(account, actor)
        old = _get_token(account, prefix)
        expires_in = _limit_lifetime(account, _lifetime_of(old) if lifetime is None else lifetime)
        rotated.append(token_records.rotate(old, overlap, expires_in=expires_in, by=actor))

    _change_locked(name, actor, rotate)
    return rotated[0]


def revoke_token(name: str, prefix: str, *, actor: Actor) -> Token:
    account = get(name)
    _require_responsible(account, actor)
    token = _get_token(account, prefix)
    if not token_records.revoke(token, actor):
        raise AlreadyInState(f"{token} is revoked already")
    token.refresh_from_db()
    return token


# Fields


def _read_fields(given: Mapping[str, Any], actor: Actor) -> dict[str, Any]:
    """Return the values to store; raises Invalid, and PermissionDenied for roles with rights that the actor lacks."""
    readers: dict[str, Callable[[Any], Any]] = {
        "owner": _read_owner,
        "purpose": _read_purpose,
        "roles": lambda names: _read_roles(names, actor),
        "expires_at": _read_end,
    }
    return {name: readers[name](value) for name, value in given.items()}


def _read_owner(name: str) -> User:
    if text_error(name, NAME_LENGTH) or (found := records.find_person(name)) is None:
        raise Invalid({"owner": [f"there is no active user {name!r}; a service account owns no other."]})
    owner: User = found
    return owner


def _read_purpose(text: str) -> str:
    if error := text_error(text, PURPOSE_LENGTH):
        raise Invalid({"purpose": [error]})
    if not text.strip():
        raise Invalid({"purpose": ["must state what the account is for."]})
    return text.strip()


def _read_roles(names: Iterable[str], actor: Actor) -> list[Any]:
    groups = find_roles(names)
    require_rights(actor, permissions_of(groups), f"the role {' or '.join(group.name for group in groups)}")
    return groups


def _read_end(at: datetime | None) -> datetime | None:
    if at is not None and at <= now():
        raise Invalid({"expires_at": ["must be in the future; disable the account to end it now."]})
    return at


# Rows


def _change_locked(name: str, actor: Actor, store: Callable[[ServiceAccount], None]) -> ServiceAccount:
    """Run a change under the lock of the account, with this actor in the entries that Django's signals write."""
    with acting_as(actor), transaction.atomic():
        ServiceAccount.objects.select_for_update().filter(pk=get(name).pk).first()
        store(get(name))
    return get(name)


def _set_active(account: ServiceAccount, *, is_active: bool) -> None:
    if account.user.is_active is is_active:
        raise AlreadyInState(f"{account} is {'enabled' if is_active else 'disabled'} already")
    account.user.is_active = is_active
    account.user.save(update_fields=["is_active"])


def _shorten_tokens(account: ServiceAccount) -> None:
    """No entry for each: the entry of the account has its new end."""
    if account.expires_at is not None:
        later = account.user.tokens.filter(revoked_at=None, expires_at__gt=account.expires_at)
        later.update(expires_at=account.expires_at)


def _require_responsible(account: ServiceAccount, actor: Actor) -> None:
    """Administrators and the owner, with a session or a token of their own for the scope `override`."""
    if is_administrator(actor):
        return
    if actor.account is None or actor.account != account.owner_id:
        raise PermissionDenied(f"{actor.name} neither owns {account} nor manages accounts", required="owner")


def _require_token_allowed(account: ServiceAccount, actor: Actor) -> None:
    _require_responsible(account, actor)
    if is_administrator(actor) and actor.account != account.owner_id:
        require_rights(actor, permissions_of_user(account.user), str(account))
    if not account.has_active_owner:
        raise Invalid({"owner": [f"{account} has no active owner: set one first."]})
    if not account.user.is_active or account.is_expired(now()):
        raise Invalid({"id": [f"{account} is disabled or has ended."]})


def _limit_lifetime(account: ServiceAccount, lifetime: timedelta) -> timedelta:
    if not timedelta() < lifetime <= LONGEST_LIFETIME:
        raise Invalid({"lifetime": [f"must be more than nothing and at most {LONGEST_LIFETIME.days} days."]})
    return lifetime if account.expires_at is None else min(lifetime, account.expires_at - now())


def _lifetime_of(token: Token) -> timedelta:
    return min(token.expires_at - token.created_at, LONGEST_LIFETIME) if token.expires_at else DEFAULT_LIFETIME


def _get_token(account: ServiceAccount, prefix: str) -> Token:
    found = next((token for token in account.tokens() if token.prefix == prefix), None)
    if found is None:
        raise NotFound(f"{account} has no token {prefix!r}")
    return found


def _describe(account: ServiceAccount) -> dict[str, str | None]:
    return {
        "owner": account.owner.get_username() if account.owner else None,
        "purpose": account.purpose,
        "expires_at": rfc3339(account.expires_at) if account.expires_at else None,
    }


def _record(action: accounts.Action, account: ServiceAccount, actor: Actor, **facts: Any) -> None:
    accounts.record(action, accounts.Account.of_user(account.user), actor=actor, facts=facts)
