"""Deletes the artifacts of tasks that ended long ago, and removes contents that no artifact has."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from ..kernel.clock import now
from ..kernel.refusals import Refusal
from ..records import Artifact, ArtifactContent
from ..storage.links import related_column
from . import store

BATCH = 1_000
# Longer than a file takes to be saved, and than readers take between reading a row and opening its file.
REMOVAL_DELAY = timedelta(hours=1)

log = structlog.get_logger(__name__)


def expire() -> int:
    """Delete a batch of artifacts whose task ended longer ago than the setting allows; return their number."""
    if not settings.STATECORE_ARTIFACT_DAYS:
        return 0
    until = now() - timedelta(days=settings.STATECORE_ARTIFACT_DAYS)
    # As a join, SQLite would read all tasks that ended long ago.
    ended_at = related_column(Artifact, "task", "completed_at")
    old = Artifact.objects.alias(ended_at=ended_at).filter(stored_at__lte=until, ended_at__lte=until)
    ids = list(old.order_by("stored_at").values_list("pk", flat=True)[:BATCH])
    return Artifact.objects.filter(pk__in=ids).delete()[0]


def collect() -> int:
    """Take the digest from contents that no artifact has, and remove files without one; return their number."""
    _release_unused()
    due = ArtifactContent.objects.filter(sha256="", changed_at__lte=now() - REMOVAL_DELAY).order_by("changed_at")
    return sum(_remove(name) for name in list(due.values_list("pk", flat=True)[:BATCH]))


def _release_unused() -> None:
    """Lock the rows first: a call that refers to a content locks its row until the commit, and is then visible here."""
    unused = ArtifactContent.objects.exclude(sha256="").filter(~Exists(Artifact.objects.filter(content=OuterRef("pk"))))
    with transaction.atomic():
        locked = ArtifactContent.objects.select_for_update(skip_locked=True)
        names = [each.pk for each in locked.filter(pk__in=list(unused.values_list("pk", flat=True)[:BATCH]))]
        unused.filter(pk__in=names).update(sha256="", changed_at=now())


def _remove(name: str) -> bool:
    try:
        with transaction.atomic():
            content = ArtifactContent.objects.select_for_update().filter(pk=name, sha256="").first()
            if content is None:
                return False
            store.remove(name)
            content.delete()
    except Refusal as refusal:  # the next sweep tries again
        log.warning("artifact_content_kept", name=name, error=refusal.detail)
        return False
    return True
