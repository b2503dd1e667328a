"""Wall displays: pairing by a code, a user of their own who may only look, revoking, and who has gone blind.

A browser can send no token with a socket, so a screen holds a session; its user has no password, may log in by
nothing but its pairing, and holds the rights of the group `viewer` and no other.
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

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # nothing that is read as something else from afar
CODE_LENGTH = 6
CODE_LIVES = timedelta(minutes=15)
UNHEARD_LIVES = timedelta(minutes=1)  # a screen that waits asks every other second
WAITING_AT_MOST, FROM_ONE_PLACE = 50, 5
BLIND_AFTER = timedelta(minutes=2)
SESSION_LIVES = timedelta(days=365)


def ask(asked_from: str | None) -> tuple[Screen, str]:
    """A new screen that asks to be let in, and the secret it will be known by.

    Anybody may ask, so only so many may be asking at once. The oldest gives way: first of the same place, so that
    a stranger who asks all day pushes out nobody but himself.
    """
    _forget_who_is_gone()
    waiting = Screen.objects.filter(paired_at=None)
    _make_room(waiting.filter(asked_from=asked_from), FROM_ONE_PLACE)
    _make_room(waiting, WAITING_AT_MOST)
    secret = secrets.token_urlsafe(32)
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    made = Screen.objects.create(code=code, secret_hash=hashed(secret), asked_at=now(), asked_from=asked_from)
    return made, secret


def _forget_who_is_gone() -> None:
    too_old, unheard = Q(asked_at__lt=now() - CODE_LIVES), Q(last_seen_at__lt=now() - UNHEARD_LIVES)
    never_came_back = Q(last_seen_at=None, asked_at__lt=now() - UNHEARD_LIVES)
    Screen.objects.filter(too_old | unheard | never_came_back, paired_at=None).delete()


def _make_room(waiting: QuerySet[Screen], most: int) -> None:
    kept = waiting.order_by("-asked_at", "-pk").values_list("pk", flat=True)[: most - 1]
    waiting.exclude(pk__in=list(kept)).delete()


def known_by(secret: str) -> Screen | None:
    """The screen with this secret, unless its code is too old or it was revoked."""
    screen = Screen.objects.select_related("user").filter(secret_hash=hashed(secret), revoked_at=None).first()
    is_late = screen is not None and screen.paired_at is None and screen.asked_at < now() - CODE_LIVES
    return None if is_late else screen


def pair(code: str, name: str, address: str, by: str) -> Screen | None:
    """Let the screen with this code in; None when nobody shows it."""
    waiting = Screen.objects.filter(
        code=code.replace("\x00", "").strip().upper(), paired_at=None, revoked_at=None, asked_at__gte=now() - CODE_LIVES
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


def revoke(screen: Screen) -> None:
    """Its user is closed with it: sessions and sockets of a user who is not active are at an end."""
    with transaction.atomic():
        Screen.objects.filter(pk=screen.pk, revoked_at=None).update(revoked_at=now())
        if screen.user_id:
            User.objects.filter(pk=screen.user_id).update(is_active=False)


def seen(screen: Screen) -> None:
    Screen.objects.filter(pk=screen.pk).update(last_seen_at=now())


def is_blind(screen: Screen) -> bool:
    return screen.last_seen_at is None or screen.last_seen_at < now() - BLIND_AFTER


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
