"""A phase of the engineering programme: what runs, workstreams, gates and patches belong to."""

from collections.abc import Iterable
from fnmatch import fnmatch

from django.db import models

from ..kernel.clock import now
from ..kernel.id_field import IdField
from ..kernel.ulid import ID_LENGTH
from ..kernel.validators import list_of_words


class Phase(models.Model):
    id = IdField(primary_key=True, max_length=ID_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    # What a patch of this phase may touch, as file name patterns; an empty list of allowed ones allows everything.
    allowed_paths = models.JSONField(default=list, blank=True, validators=[list_of_words])
    forbidden_paths = models.JSONField(default=list, blank=True, validators=[list_of_words])
    created_at = models.DateTimeField(default=now, editable=False)

    def __str__(self) -> str:
        return f"phase {self.pk}"

    def objection(self, paths: Iterable[str]) -> str | None:
        """Which path of a patch its policy does not allow, as a sentence; None when all are allowed."""
        for path in paths:
            if any(fnmatch(path, pattern) for pattern in self.forbidden_paths):
                return f"{path} is forbidden in phase {self.pk}"
            if self.allowed_paths and not any(fnmatch(path, pattern) for pattern in self.allowed_paths):
                return f"{path} is not among what phase {self.pk} allows"
        return None
