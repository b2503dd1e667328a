"""Wall displays: pairing with a code, unpairing, what they may open, and which of them are offline.

A browser cannot send a token with a WebSocket, so a display holds a session. Its user has no password, can log in only
by pairing, and belongs to the group `display` alone.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import transaction
from django.db.models import Q, QuerySet

from statecore.accounts.caller import get_current_actor
from statecore.journal.accounts import Account, Action, record
from statecore.kernel.clock import now

from .groups import DISPLAY
from .models import Display

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without characters that look alike from a distance
CODE_LENGTH = 6
CODE_LIFETIME = timedelta(minutes=15)
SILENT_LIFETIME = timedelta(minutes=1)  # a display that waits for its pairing polls every other second
MAX_WAITING, MAX_WAITING_PER_ADDRESS = 50, 5
OFFLINE_AFTER = timedelta(minutes=2)
SESSION_LIFETIME = timedelta(days=365)
# The views that a display may open. Its permissions let it open the board's WebSocket, and no stream of events.
VIEWS = {"console:wall", "console:wall_heartbeat", "console:pairing", "console:paired"}
WALL_ONLY = "A wall display can open the wall and nothing else. Unpair it to use this browser for the console."


def request_pairing(requested_from: str | None) -> tuple[Display, str]:
    """Creates a display that waits to be paired; returns it with the secret that identifies it.

    Anyone may request a pairing, so the number waiting is limited. The oldest request gives way, first one from the
    same address: a flood from one address displaces only its own requests.
    """
    _delete_abandoned()
    waiting = Display.objects.filter(paired_at=None)
    _make_room(waiting.filter(requested_from=requested_from), MAX_WAITING_PER_ADDRESS)
    _make_room(waiting, MAX_WAITING)
    secret = secrets.token_urlsafe(32)
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    made = Display.objects.create(
        code=code, secret_hash=hash_secret(secret), requested_at=now(), requested_from=requested_from
    )
    return made, secret


def _delete_abandoned() -> None:
    expired, silent = Q(requested_at__lt=now() - CODE_LIFETIME), Q(last_seen_at__lt=now() - SILENT_LIFETIME)
    never_polled = Q(last_seen_at=None, requested_at__lt=now() - SILENT_LIFETIME)
    Display.objects.filter(expired | silent | never_polled, paired_at=None).delete()


def _make_room(waiting: QuerySet[Display], limit: int) -> None:
    kept = waiting.order_by("-requested_at", "-pk").values_list("pk", flat=True)[: limit - 1]
    waiting.exclude(pk__in=list(kept)).delete()


def find_by_secret(secret: str) -> Display | None:
    """The display with this secret, unless its code has expired or it was unpaired."""
    display = Display.objects.select_related("user").filter(secret_hash=hash_secret(secret), revoked_at=None).first()
    is_expired = display is not None and display.paired_at is None and display.requested_at < now() - CODE_LIFETIME
    return None if is_expired else display


def pair(code: str, name: str, address: str, by: str) -> Display | None:
    """Pairs the display that shows this code and creates its user; None when no display shows it."""
    waiting = Display.objects.filter(
        code=code.replace("\x00", "").strip().upper(),
        paired_at=None,
        revoked_at=None,
        requested_at__gte=now() - CODE_LIFETIME,
    )
    with transaction.atomic():
        display = waiting.select_for_update().first()
        if display is None:
            return None
        user = User(username=f"display-{display.pk}")
        user.set_unusable_password()
        user.save()
        user.groups.add(Group.objects.get(name=DISPLAY))
        display.user, display.name, display.address = user, name, address
        display.paired_by, display.paired_at = by, now()
        display.save()
        record(Action.DISPLAY_PAIRED, Account.of_user(user), actor=get_current_actor(), facts={"display": name})
    return display


def unpair(display: Display) -> None:
    """Deactivates the display's user as well, which ends its sessions and sockets."""
    with transaction.atomic():
        Display.objects.filter(pk=display.pk, revoked_at=None).update(revoked_at=now())
        if display.user is not None:
            display.user.is_active = False
            display.user.save(update_fields=["is_active"])
            facts = {"display": display.name}
            record(Action.DISPLAY_UNPAIRED, Account.of_user(display.user), actor=get_current_actor(), facts=facts)


def is_display(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether this account belongs to a display; no query for accounts with a password."""
    if not user.is_authenticated or user.has_usable_password():
        return False
    return Display.objects.filter(user=user.pk).exists()


def record_contact(display: Display) -> None:
    Display.objects.filter(pk=display.pk).update(last_seen_at=now())


def is_offline(display: Display) -> bool:
    return display.last_seen_at is None or display.last_seen_at < now() - OFFLINE_AFTER


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
