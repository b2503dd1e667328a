"""The manifest of an export: its contents, the hash of each file, and the export that it continues."""

from __future__ import annotations

import hmac
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from .encryption import CannotOpen, Key

MANIFEST_FILE = "manifest.json"
EVENTS_FILE = "events.jsonl.gz"
WAITING_FILE = "waiting.jsonl.gz"
CHECKPOINT_FILE = "checkpoint"
# An encrypted export has the second format, which versions before accounts refuse.
FORMAT, ENCRYPTED_FORMAT = 1, 2


@dataclass(frozen=True, slots=True)
class Manifest:
    format: int
    made_at: str
    first_position: int
    last_position: int
    events: int
    # The number of events that had no position yet.
    waiting: int
    # The size of the tree and its root in base64.
    tree_size: int
    root: str
    previous: str | None
    previous_sha256: str | None
    files: dict[str, dict[str, Any]]
    # The hash of the event at the last position. Shows whether a database has the same history.
    last_hash: str = ""
    # Events up to this position were archived, and are not in the export.
    archived: int = 0
    epoch: int = 1
    # The parameters of the key, if the export has accounts and is therefore encrypted.
    encryption: dict[str, Any] | None = None
    # Proves that a holder of the passphrase wrote the manifest.
    authentication: str = ""

    def authenticated_by(self, key: Key) -> Manifest:
        return replace(self, authentication=key.authenticate(self._get_authenticated_content()))

    def _get_authenticated_content(self) -> bytes:
        return orjson.dumps(asdict(replace(self, authentication="")), option=orjson.OPT_SORT_KEYS)

    def open(self, passphrase: str) -> Key | None:
        """Returns the key of an encrypted export. Raises CannotOpen if the manifest was changed, too."""
        if self.encryption is None:
            return None
        key = Key.open(passphrase, self.encryption)
        if not hmac.compare_digest(key.authenticate(self._get_authenticated_content()), self.authentication):
            raise CannotOpen("has a manifest that was changed")
        return key

    def write(self, folder: Path) -> None:
        content = orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        (folder / MANIFEST_FILE).write_bytes(content)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        values = orjson.loads((folder / MANIFEST_FILE).read_bytes())
        if "seal" in values:  # from a version without the tree, which the sequencer then builds
            values = {name: value for name, value in values.items() if name != "seal"} | {"tree_size": 0, "root": ""}
        return cls(**values)


def list_exports(folder: Path) -> list[Path]:
    """Returns the complete exports in a folder, oldest first. Their names contain their time."""
    return sorted(path.parent for path in folder.glob(f"export-*/{MANIFEST_FILE}"))
