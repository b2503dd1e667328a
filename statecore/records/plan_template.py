"""Versions of plan templates: plans with declared parameters. A version never changes; a change is a new version."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import rfc3339
from ..kernel.ids import ID_LENGTH, IdField
from .journaled import JournaledRecord

DESCRIPTION_LENGTH = 2_000


class PlanTemplate(JournaledRecord):
    template = IdField(max_length=ID_LENGTH)
    version = models.PositiveIntegerField()
    description = models.CharField(max_length=DESCRIPTION_LENGTH, blank=True)
    # The declaration of each parameter by name: {"type", "default"?, "choices"?, "description"?}.
    parameters = models.JSONField(default=dict)
    plan = models.JSONField()
    created_by = models.CharField(max_length=NAME_LENGTH)
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view", "add")
        constraints = (models.UniqueConstraint(fields=("template", "version"), name="plan_template_version_is_unique"),)

    def __str__(self) -> str:
        return f"template {self.template} version {self.version}"

    def get_time(self) -> datetime:
        return self.created_at

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.template,
            "version": self.version,
            "description": self.description,
            "parameters": self.parameters,
            "plan": self.plan,
            "created_by": self.created_by,
            "created_at": rfc3339(self.created_at),
        }
