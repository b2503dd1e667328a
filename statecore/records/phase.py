"""A phase of the engineering programme: what runs, workstreams, gates and patches belong to."""

from django.db import models

from ..kernel.clock import now
from ..kernel.ulid import ID_LENGTH


class Phase(models.Model):
    id = models.CharField(primary_key=True, max_length=ID_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    # What a patch of this phase may touch; empty lists allow everything (see PatchLedger).
    allowed_paths = models.JSONField(default=list, blank=True)
    forbidden_paths = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=now, editable=False)

    def __str__(self) -> str:
        return f"phase {self.pk}"
