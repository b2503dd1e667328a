"""Read, flush and rewrite exported tables."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection

from statecore.journal import Event, Position
from statecore.operations.backup.manifest import MANIFEST_FILE
from statecore.operations.backup.tables import list_tables
from statecore.records import Alert
from statecore.storage import triggers
from statecore.storage.files import sha256


def read_all_rows(*, accounts: bool = False) -> dict[str, list[Any]]:
    """Return every row of every table that a restore recovers, without the epochs that restores have started."""
    positions, events = Position.objects.exclude(kind="epoch"), Event.objects.exclude(kind="epoch")
    found: dict[str, list[Any]] = {
        "positions": list(positions.order_by("position").values_list("position", "event_id"))
    }
    found["events"] = sorted(events.values_list("event_id", "body", "hash", "timestamp"))
    for model in list_tables(accounts=accounts):
        rows = model._base_manager.exclude(rule="epoch") if model is Alert else model._base_manager
        found[model.__name__] = sorted(map(repr, rows.values_list()))
    return found


def flush_database() -> None:
    with triggers.disabled(connection):
        call_command("flush", verbosity=0, interactive=False)


def rewrite_rows(folder: Path, name: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the rows of a file and update its checksum in the manifest, as a skilled attacker would."""
    path = folder / name
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in change(lines))))
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    manifest["files"][name]["sha256"] = sha256(path)
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest))
