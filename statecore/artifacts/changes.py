"""Storing and deleting artifacts. Each change is an event of the task, with the digests before and after it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db import IntegrityError

from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.refusals import Invalid, NotFound, StorageUnavailable
from ..machines.task import Task
from ..records import Artifact, ArtifactContent
from ..records.artifact import NAME_LIMIT, TYPE_LIMIT
from ..transitions import rights
from ..transitions.edit import record_note
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import limits, store
from .upload import Upload

NAME = re.compile(rf"(?!\.{{1,2}}\Z)[A-Za-z0-9._+@=:-]{{1,{NAME_LIMIT}}}")
CONTENT_TYPE = re.compile(rf"(?=.{{3,{TYPE_LIMIT}}}\Z)[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; ?[ -~]+)?")
ATTEMPTS = 5


@dataclass(slots=True, frozen=True)
class Stored:
    artifact: Artifact
    is_new: bool


@dataclass(slots=True, frozen=True)
class Place:
    """The task and the name of an artifact, and the actor that changes it."""

    task: str
    name: str
    actor: Actor
    attempt: int | None
    content_type: str = ""

    def check(self) -> None:
        errors = {}
        if not NAME.fullmatch(self.name):
            errors["name"] = [f"must be 1 to {NAME_LIMIT} of A-Z a-z 0-9 . _ + @ = : -."]
        if self.content_type and not CONTENT_TYPE.fullmatch(self.content_type):
            errors["content_type"] = [f"must be a media type of at most {TYPE_LIMIT} characters."]
        if errors:
            raise Invalid(errors)

    def check_rights(self, task: Task) -> None:
        """Agents change the artifacts of tasks they hold, with the current attempt; operators those of any task."""
        rights.require(self.actor, Task.flow, "operate")
        rights.require_attempt(self.actor, task, self.attempt, "artifact")


def check_before_upload(place: Place, size: int) -> None:
    """Refuse early what `put` would refuse after the upload."""
    place.check()
    task = Task.objects.filter(pk=place.task).first()
    if task is None:
        raise NotFound(f"there is no task {place.task!r}")
    place.check_rights(task)
    limits.check_room(place.task, place.name, size)


def put(place: Place, upload: Upload) -> Stored:
    """Store a content under a name of the task, in place of the previous one.

    Repeating it changes nothing. A content that the storage has already is not stored again.
    """
    for _attempt in range(ATTEMPTS):
        if stored := _put_once(place, upload):
            return stored
    raise StorageUnavailable("the content was removed while it was stored: try again", retry_after=1)


def delete(place: Place) -> None:
    """Delete an artifact; its content is removed when no other artifact has it."""
    place.check()

    def step(work: UnitOfWork) -> None:
        task = work.lock(Task, place.task)
        place.check_rights(task)
        found = Artifact.objects.filter(task=place.task, name=place.name).select_related("content").first()
        if found is None:
            raise NotFound(f"task {place.task} has no artifact {place.name!r}")
        record_note(work, task, _describe(place.name, found.content, None), actor=place.actor)
        found.delete()

    run_in_transaction(step)


def _put_once(place: Place, upload: Upload) -> Stored | None:
    """Return None if the same content was stored or removed by another call."""
    saved = _save_unless_stored(upload)
    try:
        return run_in_transaction(lambda work: _refer(work, place, upload, saved))
    except IntegrityError:  # the digest is unique
        return None
    finally:
        if saved is not None:
            _abandon(saved)


def _save_unless_stored(upload: Upload) -> ArtifactContent | None:
    """Save the file in the storage, without a digest yet; return None if the storage has the content."""
    if ArtifactContent.objects.filter(sha256=upload.sha256).exists():
        return None
    limits.check_total(upload.size)
    content = ArtifactContent.objects.create(name=store.choose_name(), size=upload.size, changed_at=now())
    upload.file.seek(0)
    store.save(content.name, upload.file)
    return content


def _refer(work: UnitOfWork, place: Place, upload: Upload, saved: ArtifactContent | None) -> Stored | None:
    """Return None if the stored content no longer exists."""
    task = work.lock(Task, place.task)
    place.check_rights(task)
    limits.check_room(place.task, place.name, upload.size)
    content = _lock_content(upload.sha256, saved)
    if content is None:
        return None
    before = Artifact.objects.filter(task=place.task, name=place.name).select_related("content").first()
    fields = {"content": content, "content_type": place.content_type or "application/octet-stream"}
    if before is not None and (before.content, before.content_type) == tuple(fields.values()):
        return Stored(before, is_new=False)
    replaced = before.content if before is not None else None
    record_note(work, task, _describe(place.name, replaced, content), actor=place.actor)
    fields |= {"attempt": task.attempt, "stored_by": place.actor.name, "stored_at": now()}
    artifact, is_new = Artifact.objects.update_or_create(task_id=place.task, name=place.name, defaults=fields)
    return Stored(artifact, is_new=is_new)


def _lock_content(sha256: str, saved: ArtifactContent | None) -> ArtifactContent | None:
    """Lock the content with this digest, so that it is not removed; otherwise give the saved one the digest."""
    existing = ArtifactContent.objects.select_for_update().filter(sha256=sha256).first()
    if existing is not None or saved is None:
        return existing
    if not ArtifactContent.objects.filter(pk=saved.pk, sha256="").update(sha256=sha256, changed_at=now()):
        return None  # its upload took so long that it was removed
    return ArtifactContent.objects.get(pk=saved.pk)


def _abandon(content: ArtifactContent) -> None:
    """Remove what was saved in vain; the rest is left to `collect`."""
    if ArtifactContent.objects.filter(pk=content.pk, sha256="").exists():
        store.remove(content.name)
        ArtifactContent.objects.filter(pk=content.pk, sha256="").delete()


def _describe(name: str, before: ArtifactContent | None, after: ArtifactContent | None) -> dict[str, str]:
    found = [f"sha256 {each.sha256}, {each.size} bytes" if each else "none" for each in (before, after)]
    return {f"artifact {name}": " → ".join(found)}
