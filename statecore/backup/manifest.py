"""What an export says about itself: what is in it, the hash of each file, and which export it follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    format: int
    made_at: str
    first_position: int
    last_position: int
    events: int
    waiting: int
    seal: str | None
    previous: str | None
    previous_sha256: str | None
    files: dict[str, dict[str, Any]]
    # Of the event at the last position: whether a database is of the history that this export is of.
    last_hash: str = ""
    # Up to this position the events were in files of their own by then, and are in none of an export's.
    retired: int = 0

    def write(self, folder: Path) -> None:
        (folder / NAME).write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        return cls(**orjson.loads((folder / NAME).read_bytes()))


def exports(folder: Path) -> list[Path]:
    """The finished exports in a folder, oldest first: their names are their times."""
    return sorted(path.parent for path in folder.glob(f"export-*/{NAME}"))
