"""Who may come in: operators who can log in, and tokens."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q

from ..kernel.clock import now
from ..records import Token
from .finding import Finding, fine, warn, wrong

SHOWN = 5


def operators() -> Iterator[Finding]:
    users = get_user_model()._default_manager.filter(is_active=True)
    count = users.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).exclude(password="").count()
    if count:
        yield fine(f"{count} can log in, {users.filter(is_superuser=True).count()} may do everything")
    else:
        yield wrong("nobody can log in", "manage.py createsuperuser")


def tokens() -> Iterator[Finding]:
    good = Token.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now()), revoked_at=None, user__is_active=True)
    for_ever = list(good.filter(expires_at=None).order_by("name").values_list("name", flat=True))
    if for_ever:
        shown = ", ".join(for_ever[:SHOWN]) + (f" and {len(for_ever) - SHOWN} more" if len(for_ever) > SHOWN else "")
        yield warn(
            f"{len(for_ever)} never expire: {shown}", "manage.py token revoke NAME, and create with --expires DAYS"
        )
    yield fine(f"{good.count()} are good")
