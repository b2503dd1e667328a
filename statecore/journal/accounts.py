"""The account journal: logins, decisions, and changes of accounts, rights and what operators set up.

Its entries are events of the entity type `account`, one chain per account, without states. Chain, position, tree,
checkpoints, journal file, export and archive are therefore those of every other event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.db import models

from ..kernel.actors import Actor
from ..kernel.transition import Severity
from ..storage.journal_rules import ACCOUNT
from .entries import append_entry
from .event_names import EventKind
from .events import Event

ENTITY_TYPE = ACCOUNT
VIEW_ACCOUNTS = "statecore.view_accounts"
TEXT_LIMIT = 1_000
ID_PATTERN = re.compile(r"(?:user|group):[0-9]+|system|unknown")


class Action(models.TextChoices):
    LOGGED_IN = "logged_in"
    LOGGED_OUT = "logged_out"
    LOGIN_FAILED = "login_failed"
    LOCKED_OUT = "locked_out"
    SESSION_ENDED = "session_ended"
    # Single sign-on.
    IDENTITY_LINKED = "identity_linked"
    SIGN_IN_REFUSED = "sign_in_refused"
    ACCESS_LOST = "access_lost"
    ACCESS_REGAINED = "access_regained"
    BREAK_GLASS_USED = "break_glass_used"
    CREATED = "account_created"
    CHANGED = "account_changed"
    DELETED = "account_deleted"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - no password
    PASSWORD_REHASHED = "password_rehashed"  # noqa: S105
    GROUPS_CHANGED = "groups_changed"
    PERMISSIONS_CHANGED = "permissions_changed"
    SECOND_FACTOR_ENROLLED = "second_factor_enrolled"
    SECOND_FACTOR_REMOVED = "second_factor_removed"
    RECOVERY_CODES_CREATED = "recovery_codes_created"
    RECOVERY_CODE_USED = "recovery_code_used"
    TOKEN_CREATED = "token_created"  # noqa: S105
    TOKEN_ROTATED = "token_rotated"  # noqa: S105
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    SERVICE_ACCOUNT_CREATED = "service_account_created"
    SERVICE_ACCOUNT_CHANGED = "service_account_changed"
    DISPLAY_PAIRED = "display_paired"
    DISPLAY_UNPAIRED = "display_unpaired"
    WEBHOOK_CREATED = "webhook_created"
    WEBHOOK_CHANGED = "webhook_changed"
    WEBHOOK_DELETED = "webhook_deleted"
    EXPORTED = "exported"
    # Entries that cover a record (records/journaled.py).
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_DECIDED = "approval_decided"
    OVERRIDE_REFUSED = "override_refused"
    ARCHIVED = "archived"
    # Entries of the rules that operators set. That of a template covers a record too.
    PHASE_CREATED = "phase_created"
    PHASE_CHANGED = "phase_changed"
    TEMPLATE_STORED = "template_stored"
    SCHEDULE_CREATED = "schedule_created"
    SCHEDULE_CHANGED = "schedule_changed"
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"
    SCHEDULE_RUN = "schedule_run"


SEVERITIES = {
    Action.LOGIN_FAILED: Severity.WARNING,
    Action.LOCKED_OUT: Severity.ERROR,
    Action.SIGN_IN_REFUSED: Severity.WARNING,
    Action.ACCESS_LOST: Severity.WARNING,
    Action.BREAK_GLASS_USED: Severity.ERROR,
    Action.OVERRIDE_REFUSED: Severity.WARNING,
}


class Account(NamedTuple):
    """The account that an entry is about. The id stays when the account is renamed."""

    id: str
    name: str

    @classmethod
    def of_user(cls, user: Any) -> Account:
        return cls(f"user:{user.pk}", user.get_username())

    @classmethod
    def of_group(cls, group: Any) -> Account:
        return cls(f"group:{group.pk}", group.name)

    @classmethod
    def of_actor(cls, actor: Actor) -> Account:
        return cls(f"user:{actor.account}" if actor.account is not None else SYSTEM.id, actor.name)


SYSTEM = Account("system", "system")
UNKNOWN = Account("unknown", "unknown")  # for login attempts with a name that no account has


def resolve_ids(given: Iterable[str]) -> list[str]:
    """Return the ids of accounts given by id or by the current name of a user."""
    names = [each for each in given if not ID_PATTERN.fullmatch(each)]
    users = get_user_model()._default_manager.filter(username__in=names)
    found = {user.get_username(): Account.of_user(user).id for user in users}
    return [found.get(each, each) for each in given]


def list_break_glass_logins(names: Iterable[str], since: datetime) -> list[Event]:
    """Return the latest login past single sign-on of each of these accounts, if there is one since then."""
    users = get_user_model()._default_manager.filter(username__in=names)
    chains = Event.objects.filter(entity_type=ENTITY_TYPE, trigger=Action.BREAK_GLASS_USED, timestamp__gte=since)
    latest = [chains.filter(entity_id=Account.of_user(user).id).order_by("-sequence").first() for user in users]
    return [entry for entry in latest if entry is not None]


def record(action: Action, account: Account, *, actor: Actor, facts: Mapping[str, Any] | None = None) -> str:
    """Append an entry to the chain of an account and return its id.

    In the transaction of the change, if there is one.
    """
    entry = append_entry(
        EventKind.ACCOUNT,
        ENTITY_TYPE,
        account.id,
        action.value,
        actor=actor,
        metadata={name: _clean(value) for name, value in (facts or {}).items()},
        context={"account": _clean(account.name), "address": actor.address},
        severity=SEVERITIES.get(action, Severity.INFO),
    )
    return entry.event_id


def _clean(value: Any) -> Any:
    """Make a value storable, whatever a login form was sent: an entry is never refused."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return str(value).replace("\0", "").encode(errors="replace").decode()[:TEXT_LIMIT]
