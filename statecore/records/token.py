"""Tokens, used by API clients in place of a password. Only their hashes are stored."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection, models, transaction
from django.db.models import Q

from ..journal import accounts
from ..kernel import registry
from ..kernel.actors import (
    NAME_LENGTH,
    THE_SYSTEM,
    Actor,
    Channel,
    Kind,
)
from ..kernel.clock import now, rfc3339
from ..kernel.refusals import DuplicateId, Invalid, PermissionDenied
from ..storage.no_waiting import without_waiting
from ..storage.rows import RowReader, ready_cursor
from . import account_names

MARK = "stc"  # makes tokens recognisable, e.g. for secret scanners
SECRET_BYTES = 32
USE_NOTED_EVERY = timedelta(minutes=1)
LONGEST_LIFE_DAYS = 36_500
LONGEST_OVERLAP = timedelta(days=30)
NUMBER = re.compile(r"/[0-9]{1,6}$")


class Scope(models.TextChoices):
    """The scopes of a token. Each includes those before it, except `integrate`, which includes and is in none but read.

    Judging work is not more than doing it: a token that did both could approve its own work.
    """

    READ = "read"
    AGENT = "agent"
    OPERATE = "operate"
    OVERRIDE = "override"
    INTEGRATE = "integrate"


_LADDER = (Scope.READ, Scope.AGENT, Scope.OPERATE, Scope.OVERRIDE)
INCLUDED = {scope: frozenset(_LADDER[: number + 1]) for number, scope in enumerate(_LADDER)}
INCLUDED[Scope.INTEGRATE] = frozenset({Scope.READ, Scope.INTEGRATE})


class Token(models.Model):
    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens")
    scope = models.CharField(max_length=16, choices=Scope.choices)
    # The beginning of the token, which is not secret and identifies it to people.
    prefix = models.CharField(max_length=16, unique=True)
    hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view", "add", "change")

    def __str__(self) -> str:
        return f"token {self.name} ({self.prefix})"

    def as_dict(self) -> dict[str, Any]:
        """Serialise for JSON, without the hash."""
        moments = {name: getattr(self, name) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")}
        return {
            "name": self.name,
            "user": self.user.get_username(),
            "scope": self.scope,
            "prefix": self.prefix,
            **{name: moment and rfc3339(moment) for name, moment in moments.items()},
        }

    def may(self, *scopes: Scope) -> bool:
        """Whether its scope includes one of the given ones."""
        return not INCLUDED[Scope(self.scope)].isdisjoint(scopes)

    def has_permission(self, permission: str) -> bool:
        """Whether the scope covers the permission and the owner has it."""
        _app, _, codename = permission.partition(".")
        needed = Scope.OVERRIDE if codename.startswith(("override_", "waive_", "manage_")) else Scope.OPERATE
        return self.may(needed) and self.owner_holds(permission)

    def owner_holds(self, permission: str) -> bool:
        """Whether the owner has the permission now, regardless of the scope."""
        known = self.__dict__.get("known", {})
        return bool(known[permission] if permission in known else self.user.has_perm(permission))

    def as_agent(self) -> Actor:
        """Return an agent named after the token, because several agents may belong to one user."""
        return Actor(self.name, Kind.AGENT, Channel.REST, token=self.prefix, owner=self.user_id)

    def as_integrator(self) -> Actor:
        return Actor(self.name, Kind.INTEGRATOR, Channel.REST, token=self.prefix, owner=self.user_id)

    def as_operator(self) -> Actor:
        return Actor(
            self.user.get_username(),
            Kind.OPERATOR,
            Channel.REST,
            has_permission=self.has_permission,
            account=self.user_id,
            token=self.prefix,
        )

    def actor(self) -> Actor:
        """Return the actor for calls that are open to several kinds."""
        match self.scope:
            case Scope.AGENT:
                return self.as_agent()
            case Scope.INTEGRATE:
                return self.as_integrator()
        return self.as_operator()

    def as_kind(self, kind: Kind) -> Actor:
        """Return the actor of a stored request."""
        kinds = {Kind.AGENT: self.as_agent, Kind.INTEGRATOR: self.as_integrator}
        return kinds.get(kind, self.as_operator)()

    def is_good(self, at: datetime) -> bool:
        expired = self.expires_at is not None and self.expires_at <= at
        return self.revoked_at is None and not expired and bool(self.user.is_active)


NEEDED_FOR = {
    Scope.READ: "view",
    Scope.AGENT: "operate",
    Scope.OPERATE: "operate",
    Scope.OVERRIDE: "override",
    Scope.INTEGRATE: "operate",
}


def scopes_of(user: Any) -> list[Scope]:
    """Return the scopes that tokens of this user may have, according to the user's permissions."""
    held = {
        action
        for action in set(NEEDED_FOR.values())
        if any(user.has_perm(flow.permission(action)) for flow in registry.flows())
    }
    return [scope for scope, action in NEEDED_FOR.items() if action in held]


def make(
    name: str, user: Any, scope: str, *, expires_in: timedelta | None = None, by: Actor = THE_SYSTEM
) -> tuple[Token, str]:
    """Create a token and return it with its text, which is not stored. The account journal records actor and owner.

    Raises Invalid, PermissionDenied if the owner may not have the scope, and DuplicateId.
    """
    errors = {}
    if complaint := account_names.spelling_error(name, of_service=account_names.is_of_service(user)):
        errors["name"] = [f"{complaint}."]
    if scope not in Scope.values:
        errors["scope"] = [f"must be one of {', '.join(Scope.values)}."]
    if expires_in is not None and not timedelta() < expires_in <= timedelta(days=LONGEST_LIFE_DAYS):
        errors["expires"] = [f"must be more than nothing and at most {LONGEST_LIFE_DAYS} days."]
    if errors:
        raise Invalid(errors)
    if scope not in scopes_of(user):
        raise PermissionDenied(
            f"{user.get_username()} may not hold a token for {scope}", required=NEEDED_FOR[Scope(scope)]
        )
    if account_names.is_username(name):
        raise DuplicateId(f"there is a user {name!r}: choose another name for the token", id=name)
    with transaction.atomic():
        token, text = _create(name, user, scope, expires_in)
        _record(accounts.Action.TOKEN_CREATED, token, by)
    return token, text


def _create(name: str, user: Any, scope: str, expires_in: timedelta | None) -> tuple[Token, str]:
    prefix = f"{MARK}_{secrets.token_hex(4)}"
    text = f"{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    at = now()
    token, is_new = Token.objects.get_or_create(
        name__iexact=name,
        defaults={
            "name": name,
            "user": user,
            "scope": scope,
            "prefix": prefix,
            "hash": hashed(text),
            "created_at": at,
            "expires_at": at + expires_in if expires_in else None,
        },
    )
    if not is_new:
        raise DuplicateId(f"there is a token {name!r} already", id=name)
    return token, text


def _record(action: accounts.Action, token: Token, by: Actor, **more: str) -> None:
    expires_at = rfc3339(token.expires_at) if token.expires_at else None
    facts = {"token": token.prefix, "name": token.name, "scope": token.scope, "expires_at": expires_at, **more}
    accounts.record(action, accounts.Account.of_user(token.user), actor=by, facts=facts)


def hashed(text: str) -> str:
    """Hash a token. A fast hash suffices, because 256 random bits cannot be guessed."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def find(text: str, *permissions: str) -> Token | None:
    """Return the valid token with this text and its user, or None; record its use at most once a minute.

    The same query reads whether the owner has the permissions, of which almost every call needs one.
    """
    token = _with_user(hashed(text), permissions)
    at = now()
    if token is None or not token.is_good(at):
        return None
    if token.last_used_at is None or token.last_used_at <= at - USE_NOTED_EVERY:
        _note_use(token, at)
    return token


def _note_use(token: Token, at: datetime) -> None:
    """Never delays or fails the call: a database that is locked or refuses changes still answers reads."""
    with suppress(DatabaseError), without_waiting(connection):
        Token.objects.filter(pk=token.pk).update(last_used_at=at)


# Every API call starts with this query; building it with the ORM would cost more than the rest of the call.
USER_COLUMNS = {"id", "username", "is_active", "is_staff", "is_superuser"}


@cache
def _readers(vendor: str) -> tuple[RowReader, RowReader]:
    """Return the readers of the token and of the columns of its user that are needed."""
    user = get_user_model()
    needed = [field for field in user._meta.concrete_fields if field.attname in USER_COLUMNS]
    return RowReader(Token, Token._meta.concrete_fields, vendor), RowReader(user, needed, vendor)


@cache
def _statement(vendor: str, permissions: int) -> str:
    quote = connection.ops.quote_name
    token, user = Token._meta, get_user_model()._meta
    columns = [f"token.{quote(str(field.column))}" for field in token.concrete_fields]
    columns += [f"owner.{quote(name)}" for name in _readers(vendor)[1].names]
    columns += [HELD] * permissions
    return (
        f"SELECT {', '.join(columns)} FROM {quote(token.db_table)} AS token "  # noqa: S608 - names of columns only
        f"JOIN {quote(user.db_table)} AS owner ON owner.id = token.user_id WHERE token.hash = %s"
    )


# Django's rule: superusers have every permission, others by user or group. The permission's id is found first;
# with nested EXISTS PostgreSQL would hash the permissions of every group of the owner.
HELD = """(owner.is_superuser OR (
    SELECT held.id FROM django_content_type AS kind JOIN auth_permission AS held ON held.content_type_id = kind.id
    WHERE kind.app_label = %s AND kind.model = %s AND held.codename = %s
) IN (
    SELECT own.permission_id FROM auth_user_user_permissions AS own WHERE own.user_id = owner.id
    UNION ALL
    SELECT given.permission_id FROM auth_user_groups AS member
    JOIN auth_group_permissions AS given ON given.group_id = member.group_id WHERE member.user_id = owner.id))"""


@cache
def about(permission: str) -> tuple[str, str, str]:
    """Return the parameters of HELD. A permission of Django's own kind names its model; others are declared by one."""
    app, _, codename = permission.partition(".")
    every = (model._meta for model in apps.get_models() if model._meta.app_label == app)
    declared_by = (str(meta.model_name) for meta in every if codename in dict(meta.permissions))
    return app, next(declared_by, codename.partition("_")[2]), codename


def _with_user(hash_: str, permissions: Sequence[str]) -> Token | None:
    params = [*(part for permission in permissions for part in about(permission)), hash_]
    cursor, (of_token, of_user) = ready_cursor(), _readers(connection.vendor)
    cursor.execute(_statement(connection.vendor, len(permissions)), params)
    rows = cursor.fetchall()  # reads all rows, so that the cursor is free again
    for row in rows:
        width = len(of_token.names)
        held = len(row) - len(permissions)
        token: Token = of_token.build(row[:width])
        token._state.fields_cache["user"] = of_user.build(row[width:held])
        token.__dict__["known"] = dict(zip(permissions, map(bool, row[held:]), strict=True))
        return token
    return None


def accounts_of(identities: Iterable[str]) -> set[int]:
    """Return the user accounts behind identities such as `user:7` and `token:stc_0a1b2c3d`."""
    return {owner for owner in owners_of(identities).values() if isinstance(owner, int)}


def owners_of(identities: Iterable[str]) -> dict[str, int | str]:
    """Return the user account behind each identity; the identity itself where there is none, as for a deleted token."""
    owners: dict[str, int | str] = {identity: identity for identity in identities}
    named = {identity: identity.partition(":") for identity in owners}
    owners |= {identity: int(name) for identity, (kind, _, name) in named.items() if kind == "user"}
    prefixes = [name for kind, _, name in named.values() if kind == "token"]
    owned = Token.objects.filter(prefix__in=prefixes).values_list("prefix", "user_id") if prefixes else ()
    return owners | {f"token:{prefix}": user for prefix, user in owned}


def identities_of(account: int) -> list[str]:
    """Return the identities with which a user account acts: its own, and those of its tokens."""
    prefixes = Token.objects.filter(user_id=account).values_list("prefix", flat=True)
    return [f"user:{account}", *(f"token:{prefix}" for prefix in prefixes)]


def rotate(token: Token, overlap: timedelta, *, expires_in: timedelta | None, by: Actor) -> tuple[Token, str]:
    """Create a token beside this one, which ends after the overlap; return the new one with its text.

    The new one has the same owner and scope and the next number as its name. Raises Invalid for a token that is not
    valid any more.
    """
    if not timedelta() <= overlap <= LONGEST_OVERLAP:
        raise Invalid({"overlap": [f"must be 0 to {LONGEST_OVERLAP.days} days."]})
    with transaction.atomic():
        old = Token.objects.select_for_update(of=("self",)).select_related("user").get(pk=token.pk)
        at = now()
        if not old.is_good(at):
            raise Invalid({"token": ["has expired or was revoked: create a new one."]})
        made, text = make(next_name(old.name), old.user, old.scope, expires_in=expires_in, by=by)
        end = at + overlap
        old.expires_at = end if old.expires_at is None else min(end, old.expires_at)
        old.save(update_fields=["expires_at"])
        _record(accounts.Action.TOKEN_ROTATED, old, by, replaced_by=made.prefix)
    return made, text


def next_name(name: str) -> str:
    """Return `ci/2` for `ci` and `ci/1`: no name is given to two tokens, because events have it."""
    base = NUMBER.sub("", name)
    names = Token.objects.filter(Q(name__iexact=base) | Q(name__istartswith=f"{base}/")).values_list("name", flat=True)
    rest = [each[len(base) + 1 :] or "1" for each in names]
    return f"{base}/{max((int(number) for number in rest if number.isdigit()), default=0) + 1}"


def revoke(token: Token, by: Actor = THE_SYSTEM) -> bool:
    """Revoke the token permanently, with an entry in the account journal; return False if it already was."""
    with transaction.atomic():
        is_new = bool(Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now()))
        if is_new:
            _record(accounts.Action.TOKEN_REVOKED, token, by)
    return is_new
