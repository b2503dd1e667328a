"""Wall displays: pairing with a code, revoking, and which of them are offline.

A browser cannot send a token with a WebSocket, so a display holds a session. Its user has no password, can log in only
by pairing, and belongs to the group `viewer` alone.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q, QuerySet

from statecore.kernel.clock import now

from .groups import VIEWER
from .models import Screen

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without characters that look alike from a distance
CODE_LENGTH = 6
CODE_LIFETIME = timedelta(minutes=15)
SILENT_LIFETIME = timedelta(minutes=1)  # a display that waits for its pairing polls every other second
MAX_WAITING, MAX_WAITING_PER_ADDRESS = 50, 5
OFFLINE_AFTER = timedelta(minutes=2)
SESSION_LIFETIME = timedelta(days=365)


def request_pairing(asked_from: str | None) -> tuple[Screen, str]:
    """Creates a display that waits to be paired; returns it with the secret that identifies it.

    Anyone may request a pairing, so the number waiting is limited. The oldest request gives way, first one from the
    same address: a flood from one address displaces only its own requests.
    """
    _delete_abandoned()
    waiting = Screen.objects.filter(paired_at=None)
    _make_room(waiting.filter(asked_from=asked_from), MAX_WAITING_PER_ADDRESS)
    _make_room(waiting, MAX_WAITING)
    secret = secrets.token_urlsafe(32)
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    made = Screen.objects.create(code=code, secret_hash=hash_secret(secret), asked_at=now(), asked_from=asked_from)
    return made, secret


def _delete_abandoned() -> None:
    expired, silent = Q(asked_at__lt=now() - CODE_LIFETIME), Q(last_seen_at__lt=now() - SILENT_LIFETIME)
    never_polled = Q(last_seen_at=None, asked_at__lt=now() - SILENT_LIFETIME)
    Screen.objects.filter(expired | silent | never_polled, paired_at=None).delete()


def _make_room(waiting: QuerySet[Screen], limit: int) -> None:
    kept = waiting.order_by("-asked_at", "-pk").values_list("pk", flat=True)[: limit - 1]
    waiting.exclude(pk__in=list(kept)).delete()


def find_by_secret(secret: str) -> Screen | None:
    """The display with this secret, unless its code has expired or it was unpaired."""
    screen = Screen.objects.select_related("user").filter(secret_hash=hash_secret(secret), revoked_at=None).first()
    is_expired = screen is not None and screen.paired_at is None and screen.asked_at < now() - CODE_LIFETIME
    return None if is_expired else screen


def pair(code: str, name: str, address: str, by: str) -> Screen | None:
    """Pairs the display that shows this code and creates its user; None when no display shows it."""
    waiting = Screen.objects.filter(
        code=code.replace("\x00", "").strip().upper(),
        paired_at=None,
        revoked_at=None,
        asked_at__gte=now() - CODE_LIFETIME,
    )
    with transaction.atomic():
        screen = waiting.select_for_update().first()
        if screen is None:
            return None
        user = User(username=f"screen-{screen.pk}")
        user.set_unusable_password()
        user.save()
        user.groups.add(Group.objects.get(name=VIEWER))
        screen.user, screen.name, screen.address, screen.paired_by, screen.paired_at = user, name, address, by, now()
        screen.save()
    return screen


def unpair(screen: Screen) -> None:
    """Deactivates the display's user as well, which ends its sessions and sockets."""
    with transaction.atomic():
        Screen.objects.filter(pk=screen.pk, revoked_at=None).update(revoked_at=now())
        if screen.user_id:
            User.objects.filter(pk=screen.user_id).update(is_active=False)


def record_contact(screen: Screen) -> None:
    Screen.objects.filter(pk=screen.pk).update(last_seen_at=now())


def is_offline(screen: Screen) -> bool:
    return screen.last_seen_at is None or screen.last_seen_at < now() - OFFLINE_AFTER


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
