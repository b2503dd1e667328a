"""Lists the sessions of a user, with their start, address and last use, and ends them.

A session holds its own description. Django's table has no column for the user, so listing reads the unexpired sessions;
their number is that of the logged-in browsers and displays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest

from statecore.accounts.caller import get_address
from statecore.journal.accounts import Account, Action, record
from statecore.kernel.actors import Actor
from statecore.kernel.clock import now
from statecore.storage.no_waiting import without_waiting

ACTIVITY = "activity"  # key in the session
KEPT = "kept"  # the value of `modified` of a session in which only values changed that may get lost
NOTED_EVERY = timedelta(minutes=1)
AGENT_LENGTH = 200
MAX_READ = 10_000
SHORT = 40
# In this order: most browsers also name others.
BROWSERS = ("Firefox", "Edg", "OPR", "Chrome", "Safari", "curl", "python-httpx")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "CrOS", "Linux")
NAMES = {"Edg": "Edge", "OPR": "Opera", "Mac OS X": "macOS", "CrOS": "ChromeOS"}


@dataclass(frozen=True, slots=True)
class UserSession:
    id: str  # identifies the session without giving it away
    key: str
    started_at: datetime
    last_used_at: datetime
    address: str
    agent: str
    is_current: bool

    @property
    def browser(self) -> str:
        """`Firefox on Linux`: enough to recognise one's own; the whole text is in `agent`."""
        name, system = (next((word for word in known if word in self.agent), "") for known in (BROWSERS, SYSTEMS))
        found = " on ".join(each for each in (NAMES.get(name, name), NAMES.get(system, system)) if each)
        return found or self.agent[:SHORT] or "unknown"


def note_activity(request: HttpRequest) -> None:
    """Describe the session and extend it, at most once a minute, because this writes it."""
    at, known = now().timestamp(), request.session.get(ACTIVITY)
    if known is not None and at < known["last"] + NOTED_EVERY.total_seconds():
        return
    activity = {
        "started": known["started"] if known else at,
        "last": at,
        "address": get_address(request),
        "agent": request.headers.get("User-Agent", "")[:AGENT_LENGTH],
    }
    keep(request, ACTIVITY, activity)


def keep(request: HttpRequest, key: str, value: Any) -> None:
    """Store a value that may get lost: a database that is locked or refuses changes still shows the page."""
    session: Any = request.session
    modified = session.modified
    session[key] = value
    session.modified = modified or KEPT


def save_kept(request: HttpRequest) -> None:
    """Save what `keep` stored, without waiting, unless Django's middleware has more to save.

    That middleware would fail the page if it could not save it. After this it only renews the cookie.
    """
    session: Any = request.session
    if session.modified != KEPT:
        return
    try:
        with without_waiting(connection):
            session.save()
        session.save = _do_nothing
    except (DatabaseError, UpdateError):
        session.modified = False


def _do_nothing() -> None:
    """Replace the second save of a session in one response."""


def list_sessions(user: Any, current: str | None) -> list[UserSession]:
    """The valid sessions of a user, the current one first, then the most recently used."""
    found = group_by_user([user], current).get(user.pk, [])
    return sorted(found, key=lambda each: (not each.is_current, -each.last_used_at.timestamp()))


def group_by_user(users: Iterable[Any], current: str | None = None) -> dict[int, list[UserSession]]:
    """The valid sessions of these users by the id of the user."""
    by_id = {str(user.pk): user for user in users}
    unexpired = Session.objects.filter(expire_date__gt=now()).order_by("-expire_date")[:MAX_READ]
    found: dict[int, list[UserSession]] = {}
    for row in unexpired:
        data = row.get_decoded()
        user = by_id.get(data.get(SESSION_KEY, ""))
        if user is not None and _belongs_to(data, user):
            found.setdefault(user.pk, []).append(_describe(row, data, current))
    return found


def _belongs_to(data: dict[str, Any], user: Any) -> bool:
    """Whether these are the data of a session that still works: a new password has invalidated earlier ones."""
    return data.get(SESSION_KEY) == str(user.pk) and data.get(HASH_SESSION_KEY) == user.get_session_auth_hash()


def _describe(row: Session, data: dict[str, Any], current: str | None) -> UserSession:
    known = data.get(ACTIVITY, {})
    started, last = (datetime.fromtimestamp(known.get(name, 0), UTC) for name in ("started", "last"))
    address, agent = known.get("address", ""), known.get("agent", "")
    return UserSession(hash_key(row.pk), row.pk, started, last, address, agent, row.pk == current)


def hash_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def end(sessions: list[UserSession], user: Any, actor: Actor) -> int:
    """Deletes the sessions, which also closes their streams within a minute; returns how many there were."""
    with transaction.atomic():
        count, _ = Session.objects.filter(pk__in=[each.key for each in sessions]).delete()
        for each in sessions:
            facts = {"started_at": each.started_at.isoformat(), "address": each.address}
            record(Action.SESSION_ENDED, Account.of_user(user), actor=actor, facts=facts)
    return count
