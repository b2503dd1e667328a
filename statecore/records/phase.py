"""A phase of the programme, which groups runs, workstreams, gates and patches."""

from collections.abc import Iterable
from fnmatch import fnmatch

from django.db import models

from ..kernel.clock import now
from ..kernel.ids import ID_LENGTH, IdField
from ..kernel.validation import validate_word_list


class Phase(models.Model):
    id = IdField(primary_key=True, max_length=ID_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    # File name patterns that patches may change; an empty `allowed_paths` allows every path.
    allowed_paths = models.JSONField(default=list, blank=True, validators=[validate_word_list])
    forbidden_paths = models.JSONField(default=list, blank=True, validators=[validate_word_list])
    created_at = models.DateTimeField(default=now, editable=False)

    def __str__(self) -> str:
        return f"phase {self.pk}"

    def objection(self, paths: Iterable[str]) -> str | None:
        """Return a sentence about the first path that the phase does not allow, or None."""
        for path in paths:
            if any(fnmatch(path, pattern) for pattern in self.forbidden_paths):
                return f"{path} is forbidden in phase {self.pk}"
            if self.allowed_paths and not any(fnmatch(path, pattern) for pattern in self.allowed_paths):
                return f"{path} is not allowed in phase {self.pk}"
        return None
