"""A patch: the unified diff. Its state is kept in the patch ledger."""

import hashlib
import re

from django.db import models

from ..kernel.actors import IDENTITY_LENGTH
from ..kernel.clock import now
from ..kernel.ids import ID_LENGTH, IdField

NAMED = re.compile(r"^(?:(?:---|\+\+\+) (?:[ab]/)?|(?:rename|copy) (?:from|to) )([^\t\n]+)", re.MULTILINE)
# Mode changes and empty files are named only in this header; renames also have the headers above.
UNMOVED = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)
NO_FILE = "/dev/null"


class Patch(models.Model):
    """A diff. It cannot be changed or deleted: the ledger records its hash."""

    write_once = True

    id = IdField(primary_key=True, max_length=ID_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    diff = models.TextField()
    # The identity of the account or token that wrote it.
    author = models.CharField(max_length=IDENTITY_LENGTH, default="", db_default="", editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name_plural = "patches"

    def __str__(self) -> str:
        return f"patch {self.pk}"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.diff.encode()).hexdigest()

    def touched_paths(self) -> list[str]:
        """Return every path in the diff's file headers, old and new."""
        named = [*NAMED.findall(self.diff), *UNMOVED.findall(self.diff)]
        return sorted({path.strip() for path in named} - {NO_FILE})
