"""The default storage: a folder on disk."""

from __future__ import annotations

import os
from typing import Any

from django.core.files.storage import FileSystemStorage


class DiskStorage(FileSystemStorage):
    """Files that only the user of Statecore may read, synced to disk before a row refers to them."""

    def __init__(self, location: str) -> None:
        super().__init__(location, file_permissions_mode=0o600, directory_permissions_mode=0o700)

    def _save(self, name: str, content: Any) -> str:
        saved = super()._save(name, content)  # type: ignore[misc]
        for path in (self.path(saved), os.path.dirname(self.path(saved))):  # noqa: PTH120 - the API of Django
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return str(saved)
