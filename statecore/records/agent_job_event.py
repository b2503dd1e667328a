"""The append-only log of an agent job: events that change its state, and events that only describe its work."""

import re
from typing import Any

from django.db import models

from ..journal import EVENT_ID_LENGTH
from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import rfc3339
from ..kernel.fields import STATE_LENGTH

TYPE_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")


class AgentJobEvent(models.Model):
    append_only = True

    job = models.ForeignKey("statecore.AgentJob", models.PROTECT, related_name="events")
    sequence = models.PositiveIntegerField()
    type = models.CharField(max_length=64)
    payload = models.JSONField(default=dict)
    # The target state of an override; other types imply it.
    to_state = models.CharField(max_length=STATE_LENGTH, default="")
    # The journal event of the state change; empty if the state did not change.
    journal_event = models.CharField(max_length=EVENT_ID_LENGTH, default="")
    actor = models.CharField(max_length=NAME_LENGTH)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("job", "sequence"), name="agent_job_event_log_is_linear"),)

    def __str__(self) -> str:
        return f"{self.job_id} {self.sequence}: {self.type}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "job": self.job_id,
            "sequence": self.sequence,
            "type": self.type,
            "payload": self.payload,
            "to_state": self.to_state or None,
            "journal_event": self.journal_event or None,
            "actor": self.actor,
            "at": rfc3339(self.at),
        }
