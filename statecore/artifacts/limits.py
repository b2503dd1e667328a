"""The limits of artifacts: the size of one, the number and size of those of a task, and the size of all contents."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Count, Sum

from ..kernel.refusals import TooLarge
from ..records import Artifact, ArtifactContent


def check_size(size: int) -> None:
    """Raises TooLarge for an artifact that is larger than any may be."""
    _check("the artifact has", size, "STATECORE_ARTIFACT_BYTES")


def check_room(task_id: str, name: str, size: int) -> None:
    """Raises TooLarge if a task has no room for an artifact of this name and size, in place of the previous one."""
    check_size(size)
    others = Artifact.objects.filter(task=task_id).exclude(name=name)
    sums = others.aggregate(number=Count("pk"), size=Sum("content__size", default=0))
    if sums["number"] >= settings.STATECORE_ARTIFACTS_PER_TASK:
        setting = "STATECORE_ARTIFACTS_PER_TASK"
        raise TooLarge(
            f"task {task_id} has {sums['number']} artifacts already ({setting}): delete one", setting=setting
        )
    _check(f"the artifacts of task {task_id} would have", sums["size"] + size, "STATECORE_ARTIFACT_TASK_BYTES")


def check_total(size: int) -> None:
    """Raises TooLarge if the storage has no room for a new content. Uploads at the same time may exceed the limit."""
    if settings.STATECORE_ARTIFACT_TOTAL_BYTES:
        stored = ArtifactContent.objects.aggregate(size=Sum("size", default=0))["size"]
        _check("all contents would have", stored + size, "STATECORE_ARTIFACT_TOTAL_BYTES")


def _check(about: str, size: int, setting: str) -> None:
    limit = getattr(settings, setting)
    if size > limit:
        raise TooLarge(f"{about} {size} bytes, more than {limit} ({setting})", limit=limit, setting=setting)
