"""The hash of a whole file, read piece by piece."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
