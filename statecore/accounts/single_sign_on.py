"""Accounts of people that an OpenID provider or a trusted proxy has identified: made, kept up to date, deactivated.

An account is found by the issuer and the subject alone. A person who is new gets an account, never an existing one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from ..journal import Event
from ..journal.accounts import ENTITY_TYPE, UNKNOWN, Account, Action, record
from ..kernel.actors import THE_SYSTEM, Actor, Kind
from ..records import ExternalIdentity
from ..records.account_names import username_error
from .caller import acting_as

NAME_LENGTH = 100  # leaves room for a number
UNUSABLE = re.compile(r"[^A-Za-z0-9._@+-]+")


@dataclass(frozen=True, slots=True)
class Person:
    """What the issuer states about the person at the browser."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str]


class Refusal(StrEnum):
    """Why a person that the provider has identified gets no access, as a sentence for the login page."""

    NO_GROUP = "You are in none of the groups that may use this site."
    INACTIVE = "Your account was deactivated by an administrator."
    DELETED = "Your account was deleted by an administrator."


class SignInRefused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)


def admit(person: Person, address: str) -> User:
    """Return the account of this person with the groups of today; raises SignInRefused.

    Deactivates an account whose person has lost the required group, which ends its sessions, streams and tokens.
    """
    actor = Actor(THE_SYSTEM.name, Kind.SYSTEM, THE_SYSTEM.channel, address=address)
    with transaction.atomic(), acting_as(actor):
        user, refusal = _find_or_create(person, actor)
        if refusal is None and user is not None:
            _set_groups(user, person)
            user.__dict__["_issuer"] = person.issuer  # for the entry of the login
            return user
        account = Account.of_user(user) if user else UNKNOWN
        facts = {"reason": refusal, "issuer": person.issuer, "subject": person.subject}
        record(Action.SIGN_IN_REFUSED, account, actor=actor, facts=facts)
    raise SignInRefused(refusal or Refusal.NO_GROUP)


def _find_or_create(person: Person, actor: Actor) -> tuple[User | None, Refusal | None]:
    linked = ExternalIdentity.objects.filter(issuer=person.issuer, subject=person.subject).first()
    if linked is None:
        return (_create(person, actor), None) if has_access(person) else (None, Refusal.NO_GROUP)
    user = User.objects.select_for_update().filter(pk=linked.user_id).first()
    if user is None:
        return None, Refusal.DELETED
    if not has_access(person):
        _deactivate(user, actor)
        return user, Refusal.NO_GROUP
    if not user.is_active and not _reactivate(user, actor):
        return user, Refusal.INACTIVE
    return user, None


def has_access(person: Person) -> bool:
    required = settings.STATECORE_SIGN_IN_REQUIRED_GROUP
    return not person.groups.isdisjoint([required] if required else settings.STATECORE_SIGN_IN_GROUPS)


# Accounts


def _create(person: Person, actor: Actor) -> User:
    """Create the account and its link; of two sign-ins at the same time, the second one finds what the first made."""
    try:
        with transaction.atomic():
            user = User(username=_choose_name(person.name or person.subject))
            user.set_unusable_password()
            user.save()
            link(user, person.issuer, person.subject, actor)
            return user
    except IntegrityError:
        linked = ExternalIdentity.objects.get(issuer=person.issuer, subject=person.subject)
        return User.objects.get(pk=linked.user_id)


def link(user: User, issuer: str, subject: str, actor: Actor) -> None:
    """Link an account for good; raises IntegrityError if the account or the person has a link."""
    with transaction.atomic():
        ExternalIdentity.objects.create(issuer=issuer, subject=subject, user=user)
        facts = {"issuer": issuer, "subject": subject}
        record(Action.IDENTITY_LINKED, Account.of_user(user), actor=actor, facts=facts)


def _choose_name(given: str) -> str:
    """A name that no other actor has, from what the provider calls the person: `ann`, otherwise `ann-2`, `ann-3`."""
    name = UNUSABLE.sub("-", given)[:NAME_LENGTH].strip("-.") or "user"
    number, chosen = 1, name
    while username_error(chosen, User.objects.all()):
        number += 1
        chosen = f"{name}-{number}" if number < 100 else f"user-{User.objects.count() + number}"
    return chosen


def _deactivate(user: User, actor: Actor) -> None:
    if user.is_active:
        user.is_active = False
        user.save(update_fields=["is_active"])
        record(Action.ACCESS_LOST, Account.of_user(user), actor=actor)


def _reactivate(user: User, actor: Actor) -> bool:
    """Activate an account that a lost group has deactivated; what an administrator deactivated stays so."""
    entries = Event.objects.filter(entity_type=ENTITY_TYPE, entity_id=Account.of_user(user).id)
    changes = entries.filter(trigger__in=(Action.CHANGED, Action.ACCESS_LOST)).order_by("-sequence")
    if changes.values_list("trigger", flat=True).first() != Action.ACCESS_LOST:
        return False
    user.is_active = True
    user.save(update_fields=["is_active"])
    record(Action.ACCESS_REGAINED, Account.of_user(user), actor=actor)
    return True


# Groups


def _set_groups(user: User, person: Person) -> None:
    """Give and take the groups that the setting names; those that an administrator gave beside them stay."""
    mapped: dict[str, str] = settings.STATECORE_SIGN_IN_GROUPS
    wanted = {ours for theirs, ours in mapped.items() if theirs in person.groups}
    held: Any = user.groups.filter(name__in=mapped.values())
    user.groups.remove(*held.exclude(name__in=wanted))
    user.groups.add(*Group.objects.filter(name__in=wanted))
