"""Webhooks: subscriptions of accounts to events, what waits for a receiver that fails, and the log of deliveries.

The secret that signs is stored encrypted (storage/cipher.py), shown when it is made and never again.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from ..journal.position import read_extent
from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import now, rfc3339
from ..kernel.ids import ID_LENGTH, IdField, new_id
from ..storage import cipher
from . import webhook_address
from .webhook_address import URL_LENGTH

DESCRIPTION_LENGTH = 200
REASON_LENGTH = 500
ERROR_LENGTH = 200
EXCERPT_LENGTH = 1_000
SECRET_PREFIX, SECRET_BYTES = "whsec_", 32
# How long the previous secret signs beside a new one.
ROTATION = timedelta(hours=24)
LOG_LIMIT = 10_000  # the newest deliveries of a webhook that are kept
BATCH = 1_000


class Status(models.TextChoices):
    ENABLED = "enabled"
    FAILING = "failing"
    DISABLED = "disabled"
    FINISHED = "finished"


class Webhook(models.Model):
    id = IdField(primary_key=True, max_length=ID_LENGTH)
    # Only events that the owner may see are sent. NULL for the webhook of a plan that the system submitted.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="webhooks")
    url = models.CharField(max_length=URL_LENGTH)
    filter = models.JSONField(default=dict)
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True, default="")
    # Set for the webhook of a plan: it is sent once, at the end of this run.
    run_id = models.CharField(max_length=ID_LENGTH, blank=True, default="")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=NAME_LENGTH)
    secret = models.TextField()
    previous_secret = models.TextField(blank=True, default="")
    previous_until = models.DateTimeField(null=True)

    # The events up to this position of this epoch are delivered, or wait in the backlog.
    position = models.BigIntegerField(default=0)
    epoch = models.PositiveIntegerField(default=1)
    # Failed attempts in a row; after several of them nothing is sent until `next_try_at`.
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    next_try_at = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    last_failure_at = models.DateTimeField(null=True)
    # The id of a test message to be sent.
    test = models.CharField(max_length=ID_LENGTH, blank=True, default="")
    finished_at = models.DateTimeField(null=True)
    disabled_at = models.DateTimeField(null=True)
    # Empty if it was disabled because the receiver failed.
    disabled_by = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    disabled_reason = models.CharField(max_length=REASON_LENGTH, blank=True, default="")

    # Only the process that holds the lease sends. Every new lease and every change increments the fence, so that a
    # former holder cannot record anything.
    fence = models.PositiveBigIntegerField(default=0)
    leased_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view", "add", "change", "delete")
        indexes = (
            models.Index(fields=("id",), condition=Q(run_id=""), name="webhook_subscription"),
            models.Index(fields=("run_id",), condition=Q(finished_at=None) & ~Q(run_id=""), name="webhook_of_run"),
            models.Index(fields=("finished_at",), condition=~Q(run_id=""), name="webhook_finished"),
        )

    def __str__(self) -> str:
        return f"webhook {self.pk} to {self.host}"

    @property
    def host(self) -> str:
        """The host alone: the rest of the URL may be a secret."""
        return webhook_address.parse_target(self.url).host

    @property
    def status(self) -> Status:
        if self.finished_at is not None:
            return Status.FINISHED
        if self.disabled_at is not None:
            return Status.DISABLED
        return Status.FAILING if self.failing_since is not None else Status.ENABLED

    def read_secrets(self, at: datetime) -> list[str]:
        """Return the secrets that sign now, the newest first; raises UnreadableSecret."""
        found = [self.secret]
        if self.previous_secret and self.previous_until is not None and self.previous_until > at:
            found.append(self.previous_secret)
        return [cipher.decrypt(each, self.pk) for each in found]

    def as_dict(self) -> dict[str, Any]:
        """Serialise for JSON, without the secrets."""
        times = ("created_at", "failing_since", "next_try_at", "last_success_at", "last_failure_at", "finished_at",
                 "disabled_at")  # fmt: skip
        return {
            "id": self.pk,
            "url": self.url,
            "filter": self.filter,
            "description": self.description,
            "status": str(self.status),
            "run": self.run_id or None,
            "owner": self.owner.get_username() if self.owner else None,
            "created_by": self.created_by,
            "position": self.position,
            "epoch": self.epoch,
            "failures": self.failures,
            "disabled_by": self.disabled_by or None,
            "disabled_reason": self.disabled_reason or None,
            "previous_secret_until": self.previous_until and rfc3339(self.previous_until),
            **{name: (moment := getattr(self, name)) and rfc3339(moment) for name in times},
        }


class WebhookBacklog(models.Model):
    """An entity whose events wait because the receiver did not take one of them; later events wait behind it."""

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="backlog")
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    # Of the first event that waits.
    position = models.BigIntegerField()
    attempts = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField()
    next_try_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=("webhook", "entity_type", "entity_id"), name="webhook_backlog_of_entity"),
        )

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id} from {self.position}"


class WebhookDelivery(models.Model):
    """One attempt to deliver a message, with the beginning of the response."""

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    message_id = models.CharField(max_length=2 * ID_LENGTH + 1)
    name = models.CharField(max_length=64)
    # NULL for a test.
    position = models.BigIntegerField(null=True)
    event_id = models.CharField(max_length=ID_LENGTH, blank=True, default="")
    entity_type = models.CharField(max_length=32, blank=True, default="")
    entity_id = models.CharField(max_length=ID_LENGTH, blank=True, default="")
    attempt = models.PositiveIntegerField()
    at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    # NULL without a response; `error` then says why.
    status = models.PositiveSmallIntegerField(null=True)
    is_delivered = models.BooleanField()
    error = models.CharField(max_length=ERROR_LENGTH, blank=True, default="")
    response = models.TextField(blank=True, default="")

    class Meta:
        default_permissions = ()
        indexes = (
            models.Index(fields=("webhook", "-id"), name="webhook_delivery_newest"),
            models.Index(fields=("at",), name="webhook_delivery_oldest"),
        )

    def __str__(self) -> str:
        return f"{self.message_id}, attempt {self.attempt}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.pk,
            "message_id": self.message_id,
            "type": self.name,
            "position": self.position,
            "event_id": self.event_id or None,
            "entity_type": self.entity_type or None,
            "entity_id": self.entity_id or None,
            "attempt": self.attempt,
            "at": rfc3339(self.at),
            "duration_ms": self.duration_ms,
            "status": self.status,
            "delivered": self.is_delivered,
            "error": self.error or None,
            "response": self.response,
        }


def make_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def create(url: str, *, created_by: str, owner_id: int | None, **fields: Any) -> tuple[Webhook, str]:
    """Store a webhook that begins with the next event; return it with its secret. The caller has checked the URL."""
    webhook_id, secret = new_id("webhook"), make_secret()
    epoch, position = read_extent()
    webhook = Webhook.objects.create(
        id=webhook_id, url=url, owner_id=owner_id, created_at=now(), created_by=created_by, position=position,
        epoch=epoch, secret=cipher.encrypt(secret, webhook_id), **fields,
    )  # fmt: skip
    return webhook, secret


def forget() -> int:
    """Delete a batch of deliveries, and of webhooks of runs, that are older than the setting; return how many."""
    count = _forget_beyond_limit()
    if not settings.STATECORE_WEBHOOK_LOG_DAYS:
        return count
    until = now() - timedelta(days=settings.STATECORE_WEBHOOK_LOG_DAYS)
    old = WebhookDelivery.objects.filter(at__lte=until).order_by("at").values_list("pk", flat=True)[:BATCH]
    ended = Webhook.objects.exclude(run_id="").filter(Q(finished_at__lte=until) | Q(disabled_at__lte=until))
    count += _delete(WebhookDelivery, old) + _delete(Webhook, ended.values_list("pk", flat=True)[:BATCH])
    return count


def _forget_beyond_limit() -> int:
    """Delete the oldest deliveries of webhooks with more than the limit, so that no receiver fills the table."""
    count = 0
    for webhook_id in Webhook.objects.filter(run_id="").values_list("pk", flat=True):
        own = WebhookDelivery.objects.filter(webhook=webhook_id).order_by("-pk").values_list("pk", flat=True)
        if (last := own[LOG_LIMIT : LOG_LIMIT + 1].first()) is not None:
            count += _delete(WebhookDelivery, own.filter(pk__lte=last)[: 10 * BATCH])
    return count


def _delete(model: type[models.Model], ids: Iterable[Any]) -> int:
    found = list(ids)
    return model._default_manager.filter(pk__in=found).delete()[0] if found else 0
