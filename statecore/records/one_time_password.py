"""Passwords that an administrator has handed out: the user replaces one at the first login, within some days."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction

from ..kernel.clock import now

LIFETIME = timedelta(days=3)


class OneTimePassword(models.Model):
    """States that the current password of the user was handed out."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="one_time_password"
    )
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"one-time password of {self.user}"


def hand_out(user: Any, password: str) -> None:
    """Set a password that the user has to replace at the next login."""
    with transaction.atomic():
        user.set_password(password)
        user.save(update_fields=["password"])
        OneTimePassword.objects.update_or_create(user=user, defaults={"expires_at": now() + LIFETIME})


def find(user: Any) -> OneTimePassword | None:
    return OneTimePassword.objects.filter(user_id=user.pk).first()


def forget(user: Any) -> None:
    """The user has another password; called whenever one is set."""
    OneTimePassword.objects.filter(user_id=user.pk).delete()


def expire() -> int:
    """Take the passwords away that were not replaced in time, and return how many."""
    expired = list(OneTimePassword.objects.filter(expires_at__lte=now()).select_related("user"))
    for each in expired:
        with transaction.atomic():
            each.user.set_unusable_password()
            each.user.save(update_fields=["password"])
            forget(each.user)
    return len(expired)
