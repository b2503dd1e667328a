"""Passkeys: the public keys of security keys, phones and computers with which accounts log in as a second factor."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from ..kernel.clock import now

NAME_LENGTH = 80
ID_BYTES = 1_023  # as the specification allows


class Passkey(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=NAME_LENGTH)
    credential_id = models.BinaryField(max_length=ID_BYTES, unique=True)
    # The id, the model of the authenticator and the public key, as the authenticator has sent them.
    credential = models.BinaryField()
    # Goes up with each use, if the authenticator counts. A copied key would go back.
    uses = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(default=now)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"passkey {self.name}"
