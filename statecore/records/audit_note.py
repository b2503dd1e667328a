"""Audit notes for actions without a state change: refused overrides and archived events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import models

from ..journal.accounts import Action
from ..kernel.actors import NAME_LENGTH, Actor
from ..kernel.clock import now, rfc3339
from ..kernel.ids import ID_LENGTH
from .journaled import JournaledRecord

DETAIL_LIMIT = 2_000


class Kind(models.TextChoices):
    OVERRIDE_REFUSED = "override_refused"
    ARCHIVED = "archived"
    # No longer written: edits are events, and the account journal records approvals and tokens.
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_DECIDED = "approval_decided"
    EDITED = "edited"
    TOKEN_MADE = "token_made"  # noqa: S105 - no password
    TOKEN_REVOKED = "token_revoked"  # noqa: S105


class AuditNote(JournaledRecord):
    kind = models.CharField(max_length=32, choices=Kind.choices)
    actor = models.CharField(max_length=NAME_LENGTH)
    actor_kind = models.CharField(max_length=16)
    channel = models.CharField(max_length=16)
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    detail = models.TextField()
    facts = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        indexes = (models.Index(fields=("kind", "-id"), name="audit_note_newest_of_kind"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.entity_type} {self.entity_id} by {self.actor}"

    def get_time(self) -> datetime:
        return self.at

    def as_dict(self) -> dict[str, Any]:
        names = ("id", "kind", "actor", "actor_kind", "channel", "entity_type", "entity_id", "detail", "facts")
        return {**{name: getattr(self, name) for name in names}, "at": rfc3339(self.at)}


def note(kind: Kind, *, actor: Actor, entity_type: str, entity_id: str, detail: str, facts: Mapping[str, Any]) -> None:
    """Record a note; values are truncated and cleaned as needed, so that a note is never refused."""
    made = AuditNote(
        kind=kind,
        actor=actor.name,
        actor_kind=actor.kind,
        channel=actor.channel,
        entity_type=entity_type,
        entity_id=_clean(entity_id, ID_LENGTH),
        detail=_clean(detail, DETAIL_LIMIT),
        facts={name: _clean_value(value) for name, value in facts.items()},
        at=now(),
    )
    about = {"entity_type": made.entity_type, "entity_id": made.entity_id, "detail": made.detail}
    made.insert(Action(kind), actor=actor, facts=about)


def _clean_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int) else _clean(value, DETAIL_LIMIT)


def _clean(value: object, limit: int) -> str:
    return str(value).replace("\0", "").encode(errors="replace").decode()[:limit]
