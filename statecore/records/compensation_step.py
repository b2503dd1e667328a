"""The append-only record of a patch's rollback: each decision and step with actor, time and result."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import rfc3339


class Action(models.TextChoices):
    # Decisions
    PLAN_WRITTEN = "plan_written"
    PLAN_APPROVED = "plan_approved"
    REQUESTED = "requested"
    # Steps of one execution, in order
    STARTED = "started"
    GIT_REVERT = "git_revert"
    RUN_TESTS = "run_tests"
    NOTIFY = "notify"
    REQUIRED_GATE = "required_gate"
    COMMIT = "commit"
    VERIFY_REVERT = "verify_revert"
    VERIFY_CLEAN_STATE = "verify_clean_state"
    UNDONE = "undone"
    # Results
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


ENDINGS = (Action.ROLLED_BACK, Action.FAILED)


class CompensationStep(models.Model):
    append_only = True

    entry = models.ForeignKey(
        "statecore.PatchLedger", models.PROTECT, related_name="compensation_steps", db_index=False
    )
    # The execution of the step; empty for a decision.
    execution = models.CharField(max_length=32, default="")
    action = models.CharField(max_length=32, choices=Action.choices)
    ok = models.BooleanField()
    output = models.TextField(default="")
    error = models.TextField(default="")
    details = models.JSONField(default=dict)
    actor = models.CharField(max_length=NAME_LENGTH)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        indexes = (
            # For the steps of an entry, in order.
            models.Index(fields=("entry", "id"), name="compensation_step_of_entry"),
            # For the sweep that finds requested rollbacks, which are few among many steps.
            models.Index(fields=("entry",), condition=Q(action="requested"), name="compensation_step_requested"),
        )

    def __str__(self) -> str:
        return f"{self.entry_id} {self.action}: {'ok' if self.ok else self.error}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "patch": self.entry_id,
            "execution": self.execution or None,
            "action": self.action,
            "ok": self.ok,
            "output": self.output,
            "error": self.error or None,
            "details": self.details,
            "actor": self.actor,
            "started_at": rfc3339(self.started_at),
            "ended_at": rfc3339(self.ended_at),
        }
