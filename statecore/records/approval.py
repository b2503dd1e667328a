"""Requests for approval of an override, their decisions, and the overrides of each account.

All three tables are append-only: a request never changes, and a decision is a row of its own, at most one per request.
The transition service adds rows while it holds the lock of the entity, so that two decisions cannot race.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection, models, transaction
from django.db.models import Q

from ..journal import Entry
from ..journal.accounts import Action
from ..kernel.actors import NAME_LENGTH, Actor
from ..kernel.clock import now, rfc3339
from ..kernel.fields import STATE_LENGTH
from ..kernel.ids import ID_LENGTH, IdField, new_id
from ..storage.write_guard import allow_writes
from .journaled import JournaledRecord

COMMENT_LENGTH = 2_000


class Status(models.TextChoices):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    OUTDATED = "outdated"  # the entity changed before the decision


class Approval(JournaledRecord):
    """An override that waits for a second person, bound to one version of the entity."""

    volatile = ("journal_entry",)

    id = IdField(primary_key=True, max_length=ID_LENGTH)
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    version = models.PositiveIntegerField()
    from_state = models.CharField(max_length=STATE_LENGTH)
    to_state = models.CharField(max_length=STATE_LENGTH)
    reason = models.TextField()
    category = models.CharField(max_length=32)
    metadata = models.JSONField(default=dict)
    # The policies that the override falls under, as in STATECORE_SECOND_PERSON.
    policies = models.JSONField(default=list)
    requested_by = models.CharField(max_length=NAME_LENGTH)
    # Not a foreign key: the row outlives the account, and a backup may be restored where the account does not exist.
    account = models.BigIntegerField()
    token = models.CharField(max_length=16, blank=True)
    channel = models.CharField(max_length=16)
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        indexes = (
            # Pending requests have not expired: lists and counts read only these.
            models.Index(fields=("expires_at",), name="approval_by_expiry"),
            models.Index(fields=("entity_type", "entity_id"), name="approval_by_entity"),
        )

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id} → {self.to_state}"

    def get_time(self) -> datetime:
        return self.requested_at

    @property
    def status(self) -> Status:
        made = self.decided
        if made is not None:
            return Status(made.status)
        return Status.PENDING if self.expires_at > now() else Status.EXPIRED

    @property
    def decided(self) -> ApprovalDecision | None:
        return getattr(self, "decision", None)

    def as_dict(self) -> dict[str, Any]:
        names = ("entity_type", "entity_id", "version", "from_state", "to_state", "reason", "category", "policies")
        made = self.decided
        return {
            "id": self.pk,
            "status": str(self.status),
            **{name: getattr(self, name) for name in names},
            "requested_by": self.requested_by,
            "requested_at": rfc3339(self.requested_at),
            "expires_at": rfc3339(self.expires_at),
            "decided_by": made.decided_by or None if made else None,
            "decided_at": rfc3339(made.decided_at) if made else None,
            "comment": made.comment or None if made else None,
            "event_id": made.event_id or None if made else None,
        }


class ApprovalDecision(JournaledRecord):
    approval = models.OneToOneField(Approval, models.PROTECT, related_name="decision")
    status = models.CharField(max_length=16, choices=Status.choices)
    # Empty if the request expired or the entity changed.
    decided_by = models.CharField(max_length=NAME_LENGTH, blank=True)
    account = models.BigIntegerField(null=True)
    channel = models.CharField(max_length=16)
    comment = models.CharField(max_length=COMMENT_LENGTH, blank=True)
    # The event of the override, if it was approved.
    event_id = models.CharField(max_length=ID_LENGTH, blank=True)
    decided_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.approval_id} {self.status}"

    def get_time(self) -> datetime:
        return self.decided_at


class ForcedStep(models.Model):
    """An override and the account that made it; a policy also counts the steps that the same person took before."""

    append_only = True

    event_id = models.CharField(max_length=ID_LENGTH)
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    run_id = models.CharField(max_length=ID_LENGTH, blank=True)
    account = models.BigIntegerField()

    class Meta:
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=("entity_type", "entity_id"), name="forced_step_by_entity"),
            models.Index(fields=("run_id",), condition=~Q(run_id=""), name="forced_step_by_run"),
        )

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id} by account {self.account}"


def find(approval_id: str) -> Approval | None:
    return Approval.objects.select_related("decision").filter(pk=approval_id).first()


def with_status(status: Status | None) -> models.QuerySet[Approval]:
    """Return the requests with this status, or all."""
    found = Approval.objects.select_related("decision")
    if status is None:
        return found
    if status is Status.PENDING:
        return found.filter(decision=None, expires_at__gt=now())
    if status is Status.EXPIRED:
        return found.filter(Q(decision__status=status) | Q(decision=None, expires_at__lte=now()))
    return found.filter(decision__status=status)


def request(*, actor: Actor, account: int, expires_at: datetime, **fields: Any) -> Approval:
    """Store a request, with its entry in the journal."""
    made = Approval(
        id=new_id("appr"),
        requested_by=actor.name,
        account=account,
        token=actor.token,
        channel=actor.channel,
        requested_at=now(),
        expires_at=expires_at,
        **fields,
    )
    made.insert(Action.APPROVAL_REQUESTED, actor=actor, facts={**_describe(made), "reason": made.reason})
    return made


def decide(
    approval: Approval, status: Status, *, actor: Actor, comment: str = "", event_id: str = ""
) -> ApprovalDecision:
    """Store the decision, with its entry in the journal; raises IntegrityError if there is one."""
    is_person = actor.account is not None
    made = ApprovalDecision(
        approval=approval,
        status=status,
        decided_by=actor.name if is_person else "",
        account=actor.account,
        channel=actor.channel,
        comment=comment,
        event_id=event_id,
        decided_at=now(),
    )
    facts = {"status": str(status), "requested_by": approval.requested_by, "comment": comment, "event_id": event_id}
    made.insert(Action.APPROVAL_DECIDED, actor=actor, facts={**_describe(approval), **facts})
    return made


def add_forced_step(event: Entry, run_id: str, account: int) -> None:
    with transaction.atomic(), allow_writes(connection):
        ForcedStep.objects.create(
            event_id=event.event_id,
            entity_type=event.entity_type,
            entity_id=event.entity_id,
            run_id=run_id,
            account=account,
        )


def _describe(approval: Approval) -> dict[str, Any]:
    names = ("entity_type", "entity_id", "version", "to_state")
    return {"approval": approval.pk, **{name: getattr(approval, name) for name in names}}
