"""A token: what a program shows instead of a password. Only its hash is kept."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connection, models, transaction
from django.db.models.base import ModelState

from ..kernel import registry
from ..kernel.actors import NAME_LENGTH, NAME_PATTERN, THE_SYSTEM, Actor, Channel, Kind
from ..kernel.clock import now, rfc3339
from ..kernel.kept_cursor import ready_cursor
from ..kernel.refusals import DuplicateId, Invalid, PermissionDenied
from . import audit_note

MARK = "stc"  # so that a token is known for one wherever it turns up
SECRET_BYTES = 32
USE_NOTED_EVERY = timedelta(minutes=1)
LONGEST_LIFE_DAYS = 36_500


class Scope(models.TextChoices):
    """What a token is for; each includes those before it."""

    READ = "read"
    AGENT = "agent"
    OPERATE = "operate"
    OVERRIDE = "override"

    def includes(self, other: Scope) -> bool:
        return _ORDER[other] <= _ORDER[self]


_ORDER = {scope: number for number, scope in enumerate(Scope)}


class Token(models.Model):
    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens")
    scope = models.CharField(max_length=16, choices=Scope.choices)
    # The beginning of the token, which is no secret: people tell their tokens apart by it.
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
        """All but the hash, ready for JSON."""
        moments = {name: getattr(self, name) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")}
        return {
            "name": self.name,
            "user": self.user.get_username(),
            "scope": self.scope,
            "prefix": self.prefix,
            **{name: moment and rfc3339(moment) for name, moment in moments.items()},
        }

    def may(self, scope: Scope) -> bool:
        return Scope(self.scope).includes(scope)

    def holds(self, permission: str) -> bool:
        """What the user may do, as far as the token is for it."""
        _app, _, codename = permission.partition(".")
        needed = Scope.OVERRIDE if codename.startswith("override_") else Scope.OPERATE
        return self.may(needed) and self.owner_holds(permission)

    def owner_holds(self, permission: str) -> bool:
        """Whatever the token is for: no token does what its owner may not do now."""
        known = self.__dict__.get("known", {})
        return bool(known[permission] if permission in known else self.user.has_perm(permission))

    def as_agent(self) -> Actor:
        """An agent goes by the name of its token: several of them may belong to one user."""
        return Actor.agent(self.name, Channel.REST)

    def as_operator(self) -> Actor:
        return Actor(self.user.get_username(), Kind.OPERATOR, Channel.REST, holds=self.holds)

    def actor(self) -> Actor:
        return self.as_agent() if self.scope == Scope.AGENT else self.as_operator()

    def is_good(self, at: datetime) -> bool:
        expired = self.expires_at is not None and self.expires_at <= at
        return self.revoked_at is None and not expired and bool(self.user.is_active)


NEEDED_FOR = {Scope.READ: "view", Scope.AGENT: "operate", Scope.OPERATE: "operate", Scope.OVERRIDE: "override"}


def scopes_of(user: Any) -> list[Scope]:
    """What a token of this user may be for. Who may only look has tokens that only look."""
    held = {
        action
        for action in set(NEEDED_FOR.values())
        if any(user.has_perm(flow.permission(action)) for flow in registry.flows())
    }
    return [scope for scope, action in NEEDED_FOR.items() if action in held]


def make(
    name: str, user: Any, scope: str, *, expires_in: timedelta | None = None, by: Actor = THE_SYSTEM
) -> tuple[Token, str]:
    """A new token and its text, which nobody can read again; who made it, and for whom, is on record."""
    errors = {}
    if NAME_PATTERN.fullmatch(name) is None:
        errors["name"] = [f"must be 1 to {NAME_LENGTH} characters without quotes or controls."]
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
    with transaction.atomic():
        token, text = _made(name, user, scope, expires_in)
        _note(audit_note.Kind.TOKEN_MADE, token, by)
    return token, text


def _made(name: str, user: Any, scope: str, expires_in: timedelta | None) -> tuple[Token, str]:
    prefix = f"{MARK}_{secrets.token_hex(4)}"
    text = f"{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    at = now()
    token, is_new = Token.objects.get_or_create(
        name=name,
        defaults={
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


def _note(kind: audit_note.Kind, token: Token, by: Actor) -> None:
    facts = {"name": token.name, "user": token.user.get_username(), "scope": token.scope}
    facts["expires_at"] = rfc3339(token.expires_at) if token.expires_at else ""
    audit_note.note(kind, actor=by, entity_type="token", entity_id=token.prefix, detail=str(token), facts=facts)


def hashed(text: str) -> str:
    """A plain hash is enough: 256 random bits cannot be guessed, so there is nothing to slow down."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def find(text: str, permission: str = "") -> Token | None:
    """The token with this text if it is good, with its user; the use is noted, at most once a minute.

    Whether its owner has this permission is asked with the same question: almost every call wants to know one.
    """
    token = _with_user(hashed(text), permission)
    at = now()
    if token is None or not token.is_good(at):
        return None
    if token.last_used_at is None or token.last_used_at <= at - USE_NOTED_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=at)
    return token


# Every call of the API begins with this query: put together by the ORM it would cost more than the call itself.
NEEDED = {"id", "username", "is_active", "is_staff", "is_superuser"}


@cache
def _of_the_user() -> list[str]:
    """In the order of the columns, as Django wants them."""
    return [field.attname for field in get_user_model()._meta.concrete_fields if field.attname in NEEDED]


@cache
def _statement() -> str:
    quote = connection.ops.quote_name
    token, user = Token._meta, get_user_model()._meta
    columns = [f"token.{quote(str(field.column))}" for field in token.concrete_fields]
    columns += [f"owner.{quote(name)}" for name in _of_the_user()]
    return (
        f"SELECT {', '.join(columns)}, {HELD} FROM {quote(token.db_table)} AS token "  # noqa: S608 - names of columns only
        f"JOIN {quote(user.db_table)} AS owner ON owner.id = token.user_id WHERE token.hash = %s"
    )


# As Django decides it: a superuser everything, others by themselves or by a group. The permission itself is found once,
# before anything else; EXISTS in EXISTS would have PostgreSQL hash all that every group of the owner gives.
HELD = """(owner.is_superuser OR (
    SELECT held.id FROM django_content_type AS kind JOIN auth_permission AS held ON held.content_type_id = kind.id
    WHERE kind.app_label = %s AND kind.model = %s AND held.codename = %s
) IN (
    SELECT own.permission_id FROM auth_user_user_permissions AS own WHERE own.user_id = owner.id
    UNION ALL
    SELECT given.permission_id FROM auth_user_groups AS member
    JOIN auth_group_permissions AS given ON given.group_id = member.group_id WHERE member.user_id = owner.id))"""


def about(permission: str) -> list[str]:
    """The parameters of HELD."""
    app, _, codename = permission.partition(".")
    return [app, codename.partition("_")[2], codename]


def _with_user(hash_: str, permission: str) -> Token | None:
    cursor = ready_cursor()
    cursor.execute(_statement(), [*about(permission), hash_])
    rows = cursor.fetchall()  # to the end, so that the cursor is free
    for row in rows:
        names = _of_the_token()
        token: Token = _built(Token, names, [_aware(value) for value in row[: len(names)]])
        token._state.fields_cache["user"] = _built(get_user_model(), _of_the_user(), row[len(names) : -1])
        if permission:
            token.__dict__["known"] = {permission: bool(row[-1])}
        return token
    return None


def _built(model: Any, names: list[str], values: Sequence[Any]) -> Any:
    """Without __init__, its signals and its defaults, which would cost as much as the question."""
    made = model.__new__(model)
    made.__dict__.update(zip(names, values, strict=True))
    made._state = ModelState()
    made._state.adding, made._state.db = False, DEFAULT_DB_ALIAS
    return made


@cache
def _of_the_token() -> list[str]:
    return [field.attname for field in Token._meta.concrete_fields]


def _aware(value: Any) -> Any:
    """SQLite's driver leaves out the time zone, which is always UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def revoke(token: Token, by: Actor = THE_SYSTEM) -> bool:
    """For ever, and on record; False when it was revoked before."""
    with transaction.atomic():
        is_new = bool(Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now()))
        if is_new:
            _note(audit_note.Kind.TOKEN_REVOKED, token, by)
    return is_new
