"""Reads the accounts of people: the list with its filters, and the tokens and second factor of one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django_otp.plugins.otp_totp.models import TOTPDevice

from statecore.dashboard import second_factor, sessions
from statecore.dashboard.models import Display
from statecore.kernel.clock import now
from statecore.records import Passkey, Token

PAGE_SIZE = 50
SEEN = {"30": "not for 30 days", "90": "not for 90 days", "never": "never"}


# What counts as a second factor.
FACTORS: tuple[tuple[Any, dict[str, bool]], ...] = ((TOTPDevice, {"confirmed": True}), (Passkey, {}))


class Filters(NamedTuple):
    text: str = ""
    role: str = ""
    status: str = ""  # active, deactivated
    factor: str = ""  # on, off
    seen: str = ""  # a key of SEEN


class Row(NamedTuple):
    user: Any
    roles: list[str]
    sessions: int
    last_seen: datetime | None


def list_people() -> QuerySet[Any]:
    """All accounts but those of programs and displays, by name."""
    displays = Display.objects.filter(user=OuterRef("pk"))
    app, passkey = (model.objects.filter(user=OuterRef("pk"), **more) for model, more in FACTORS)
    usable = Count("tokens", filter=Q(tokens__revoked_at=None) & _is_unexpired("tokens__"), distinct=True)
    people = User.objects.filter(~Exists(displays), service_account=None).order_by("username")
    return people.annotate(has_factor=Exists(app) | Exists(passkey), token_count=usable).prefetch_related("groups")


def _is_unexpired(prefix: str = "") -> Q:
    return Q(**{f"{prefix}expires_at": None}) | Q(**{f"{prefix}expires_at__gt": now()})


def filter_people(given: Filters) -> QuerySet[Any]:
    people = list_people()
    if given.text:
        people = people.filter(Q(username__icontains=given.text) | Q(email__icontains=given.text))
    if given.role == "superuser":
        people = people.filter(is_superuser=True)
    elif given.role:
        people = people.filter(pk__in=User.objects.filter(groups__name=given.role))
    if given.status:
        people = people.filter(is_active=given.status == "active")
    if given.factor:
        people = people.filter(has_factor=given.factor == "on")
    return people.filter(_seen(given.seen)) if given.seen in SEEN else people


def _seen(name: str) -> Q:
    return Q(last_login=None) if name == "never" else Q(last_login__lt=now() - timedelta(days=int(name)))


def read_page(given: Filters, after: str) -> tuple[list[Row], bool]:
    """Return a page of people with their sessions, and whether there are more."""
    people = filter_people(given)
    found = list((people.filter(username__gt=after) if after else people)[: PAGE_SIZE + 1])
    by_user = sessions.group_by_user(found[:PAGE_SIZE])
    return [_describe(user, by_user.get(user.pk, [])) for user in found[:PAGE_SIZE]], len(found) > PAGE_SIZE


def _describe(user: User, open_sessions: list[sessions.UserSession]) -> Row:
    moments = [each.last_used_at for each in open_sessions] + ([user.last_login] if user.last_login else [])
    roles = ["superuser"] * user.is_superuser + sorted(group.name for group in user.groups.all())
    return Row(user, roles, len(open_sessions), max(moments, default=None))


def find(user_id: int) -> User | None:
    return list_people().filter(pk=user_id).first()


def list_valid_tokens(user: User) -> list[Token]:
    return list(Token.objects.filter(_is_unexpired(), user=user, revoked_at=None).order_by("-pk"))


def describe_factor(user: Any) -> str:
    """The second factor of a person as `list_people` returns it."""
    if second_factor.is_off() or not user.has_factor:
        return "off"
    return f"on, {second_factor.count_recovery_codes(user)} recovery codes left"
