"""The storage of contents: Django's storage `artifacts`, a folder on disk unless the settings name another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import structlog
from django.core.files import File
from django.core.files.storage import storages

from ..kernel.ids import new_id
from ..kernel.refusals import NotFound, Refusal, StorageUnavailable

log = structlog.get_logger(__name__)


def choose_name() -> str:
    """Return a new name. Folders by its random end, so that none gets too large."""
    name = new_id("artifact")
    return f"{name[-2:]}/{name}"


def save(name: str, file: IO[bytes]) -> None:
    with _translated("save", name):
        saved = storages["artifacts"].save(name, File(file))
        if saved != name:  # a storage that changes names
            storages["artifacts"].delete(saved)
            raise StorageUnavailable(f"the artifact storage saved {name} as {saved}: it must keep names")


def open_content(name: str) -> Any:
    """Return the open file; raises NotFound if the storage has lost it."""
    with _translated("open", name):
        try:
            return storages["artifacts"].open(name)
        except FileNotFoundError:
            lost = "the storage has lost the content of this artifact; restore its folder or bucket"
            raise NotFound(lost) from None


def remove(name: str) -> None:
    """Delete a file; nothing happens if there is none."""
    with _translated("delete", name):
        storages["artifacts"].delete(name)


@contextmanager
def _translated(action: str, name: str) -> Iterator[None]:
    """Raise StorageUnavailable for any error: the exceptions of storages have no common class."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        log.exception("artifact_storage_failed", action=action, name=name)
        raise StorageUnavailable(
            f"the artifact storage could not {action} a file: try again later", retry_after=5
        ) from error
