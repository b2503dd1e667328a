"""A patch: the unified diff itself. Its standing is kept by its entries in the patch ledger."""

import re

from django.db import models

from ..kernel.clock import now
from ..kernel.id_field import IdField
from ..kernel.ulid import ID_LENGTH

NAMED = re.compile(r"^(?:(?:---|\+\+\+) (?:[ab]/)?|(?:rename|copy) (?:from|to) )([^\t\n]+)", re.MULTILINE)
# A file whose mode alone changes, or an empty one, is named here only; one that moves is named twice, above too.
UNMOVED = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)
NO_FILE = "/dev/null"


class Patch(models.Model):
    id = IdField(primary_key=True, max_length=ID_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    diff = models.TextField()
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name_plural = "patches"

    def __str__(self) -> str:
        return f"patch {self.pk}"

    def touched_paths(self) -> list[str]:
        """Every path that its file headers name, before or after."""
        named = [*NAMED.findall(self.diff), *UNMOVED.findall(self.diff)]
        return sorted({path.strip() for path in named} - {NO_FILE})
