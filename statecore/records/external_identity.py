"""The link between an account and the person that it belongs to at an OpenID provider or a trusted proxy."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from ..kernel.clock import now

ISSUER_LENGTH, SUBJECT_LENGTH = 500, 255


class ExternalIdentity(models.Model):
    """One person, as the issuer names it for good. The database refuses changes and deletions.

    Names and addresses are given to other people in time, so neither ever finds an account.
    """

    write_once = True

    issuer = models.CharField(max_length=ISSUER_LENGTH)
    subject = models.CharField(max_length=SUBJECT_LENGTH)
    # Without a constraint: the row outlives the account, so that a deleted account is not made anew by a sign-in.
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.DO_NOTHING, db_constraint=False, related_name="+")
    created_at = models.DateTimeField(default=now)

    class Meta:
        verbose_name_plural = "external identities"
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("issuer", "subject"), name="external_identity_is_unique"),)

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
