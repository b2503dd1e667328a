"""Artifacts of tasks: files by name. A content is stored once, however many tasks and names refer to it."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import rfc3339
from ..kernel.ids import ID_LENGTH, IdField

NAME_LIMIT, TYPE_LIMIT, DIGEST_LENGTH = 128, 100, 64


class ArtifactContent(models.Model):
    """A file in the storage. It has no digest while it is uploaded, and none again when nothing refers to it.

    The row is written before the file and deleted after it, so no file is without a row. Each upload gets a name of its
    own: deleting a file never concerns a later upload of the same content.
    """

    name = IdField(primary_key=True, max_length=ID_LENGTH)
    sha256 = models.CharField(max_length=DIGEST_LENGTH, default="", db_default="")
    size = models.BigIntegerField(default=0, db_default=0)
    # When its digest was set or removed.
    changed_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=("sha256",), condition=~Q(sha256=""), name="artifact_content_is_unique"),
        )
        indexes = (models.Index(fields=("changed_at",), condition=Q(sha256=""), name="artifact_content_without_use"),)

    def __str__(self) -> str:
        return f"content {self.sha256 or 'without digest'}"


class Artifact(models.Model):
    task = models.ForeignKey("statecore.Task", models.PROTECT, related_name="artifacts", db_index=False)
    name = models.CharField(max_length=NAME_LIMIT)
    content = models.ForeignKey(ArtifactContent, models.PROTECT, related_name="artifacts")
    content_type = models.CharField(max_length=TYPE_LIMIT)
    # The attempt that stored it.
    attempt = models.PositiveIntegerField()
    stored_by = models.CharField(max_length=NAME_LENGTH)
    stored_at = models.DateTimeField(db_index=True)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("task", "name"), name="artifact_name_is_unique_in_task"),)

    def __str__(self) -> str:
        return f"artifact {self.name} of task {self.task_id}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task_id,
            "name": self.name,
            "size": self.content.size,
            "sha256": self.content.sha256,
            "content_type": self.content_type,
            "attempt": self.attempt,
            "stored_by": self.stored_by,
            "stored_at": rfc3339(self.stored_at),
        }


def list_of(task_id: str) -> list[Artifact]:
    """Return the artifacts of a task with their contents, by name."""
    return list(Artifact.objects.filter(task=task_id).select_related("content").order_by("name"))
