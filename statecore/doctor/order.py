"""The order of events and what is made of it: sequencer, journal file, seals, backups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import orjson
from django.conf import settings

from .. import integrity
from ..backup.manifest import Manifest, exports
from ..kernel.clock import now
from ..records import Position, Retirement, Seal, SinkCursor
from ..records.position import head
from ..records.retirement import horizon
from ..sequencer import lag
from ..sequencer.leadership import is_led
from .finding import Finding, fine, many, warn, wrong

RECENT_SEALS = 3
UNSEALED = timedelta(minutes=10)
OLD_EXPORT = timedelta(hours=48)
BLOCK = 1 << 20


def sequencer() -> Iterator[Finding]:
    if not is_led():
        yield wrong("no sequencer leads: screens, counters and alerts stand still", "start one (statecore-sequencer@)")
    what, seconds = max(lag().items(), key=lambda each: each[1])
    if seconds > settings.STATECORE_SEQUENCER_LAG_SECONDS:
        yield wrong(f"{what} is behind by {seconds:.0f} s", "look into the log of the sequencer that leads")
    else:
        yield fine(f"position {head()}, {seconds:.1f} s behind at most")


def journal_file() -> Iterator[Finding]:
    path: Path = settings.STATECORE_HOME / "transitions.jsonl"
    cursor = SinkCursor.objects.filter(sink="journal_file").values_list("position", flat=True).first() or 0
    if not path.exists():
        yield fine("not in this home" if cursor else "nothing was written yet")
        return
    last = _last_position(path)
    if last is None and cursor:
        yield warn(f"{path.name} has no whole line", "move it away: the sequencer writes it anew when it starts")
    elif last is not None and not _is_ours(last):
        yield warn(f"{path.name} ends with what this database does not know", "restart the sequencer: it sets it aside")
    else:
        yield fine(f"{path.name} ends at position {last[0] if last else 0}")


def _last_position(path: Path) -> tuple[int, str] | None:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - BLOCK))
        lines = file.read().split(b"\n")[:-1]  # what is after the last end of line is being written
    try:
        told = orjson.loads(lines[-1])
        return int(told["position"]), str(told["event_id"])
    except (LookupError, TypeError, ValueError):
        return None


def _is_ours(last: tuple[int, str]) -> bool:
    return Position.objects.filter(position=last[0], event=last[1]).exists()


def seals() -> Iterator[Finding]:
    if broken := integrity.verify_seals(RECENT_SEALS):
        yield wrong(broken.detail, "manage.py integrity names the first bad row; restore from the last good export")
        return
    newest = Seal.objects.order_by("-last_position").first()
    sealed = newest.last_position if newest else 0
    waits_since = _written_at(sealed + 1)
    if waits_since is not None and now() - waits_since > UNSEALED:
        yield warn(f"nothing was sealed since {waits_since:%Y-%m-%d %H:%M} UTC", "look into the log of the sequencer")
    else:
        yield fine(f"{many(Seal.objects.count(), 'seal')}, up to position {sealed}")


def _written_at(position: int) -> datetime | None:
    return Position.objects.filter(position=position).values_list("event__timestamp", flat=True).first()


def retired_files() -> Iterator[Finding]:
    """Only whether they are there: what is in them is for `integrity --archives`, which may take its time."""
    folder: Path = settings.STATECORE_RETIRED_DIR
    files = list(Retirement.objects.order_by("last_position").values_list("file", flat=True))
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        says = f"{len(missing)} of {len(files)} files of retired events are not in {folder}, the first is {missing[0]}"
        yield wrong(says, "bring them back: they may be the only copy; then manage.py integrity --archives")
    else:
        yield fine(f"{many(len(files), 'file')}, up to position {horizon()}" if files else "nothing was retired")


def backups() -> Iterator[Finding]:
    folder: Path = settings.STATECORE_BACKUP_DIR
    do = "manage.py export; beat and a worker make one daily"
    found = exports(folder)
    if not found:
        yield warn(f"there is no export in {folder}", do) if head() else fine("nothing to export yet")
        return
    try:
        manifest = Manifest.read(found[-1])
        made_at = datetime.fromisoformat(manifest.made_at)
    except (OSError, TypeError, ValueError):
        yield wrong(f"the manifest of {found[-1].name} cannot be read", "manage.py export --all, and look at that disk")
        return
    newest = f"the newest of {made_at:%Y-%m-%d %H:%M} UTC, up to position {manifest.last_position}"
    says = f"{many(len(found), 'export')}, {newest}"
    yield warn(says, do) if now() - made_at > OLD_EXPORT else fine(says)
