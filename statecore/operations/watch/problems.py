"""What is wrong with the installation itself: one function per alert rule, each of which yields what it finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from django.conf import settings
from redis.exceptions import RedisError

from ...delivery.sequencer import SEQUENCER, measure_lag
from ...delivery.sinks.alert_rules import Violation, get_limit
from ...journal.witnesses import list_witnesses
from ...kernel.clock import format_utc
from ...records import process_report
from ...records.leader_lease import list_missing
from ..doctor import services

MEBIBYTE = 1 << 20


def find_silent_processes(at: datetime) -> Iterator[Violation]:
    for each in process_report.find_silent(at):
        facts = {"role": each.role, "host": each.host, "pid": each.pid}
        since = format_utc(each.reported_at)
        detail = f"{each} has not reported since {since}: it was killed, hangs or has lost the database"
        yield Violation(f"{each.role} {each.pid} {each.host}"[:128], detail, facts)


def find_restarted_processes(at: datetime) -> Iterator[Violation]:
    for each in process_report.find_restarted(at):
        yield Violation(f"{each.name} {each.host}"[:128], each.describe_restarts(), {"restarts": each.restarts})


def find_missing_leader(at: datetime) -> Iterator[Violation]:
    if SEQUENCER in list_missing():
        yield Violation(SEQUENCER, "no sequencer leads: events get no positions, and pages and alerts are out of date")


def get_max_lag() -> float:
    return float(settings.STATECORE_SEQUENCER_LAG_SECONDS)


def find_lag(at: datetime) -> Iterator[Violation]:
    for what, seconds in measure_lag().items():
        if seconds > get_max_lag():
            subject = "numbering" if what == "numbering" else f"the sink {what}"
            yield Violation(what, f"{subject} is behind: an event has waited for {seconds:.0f} s", {"seconds": seconds})


def find_unreachable_broker(at: datetime) -> Iterator[Violation]:
    try:
        with services.open_redis() as redis:
            # A full server answers, but takes nothing.
            redis.set(services.PROBE_KEY, "1", ex=60)
    except (RedisError, OSError) as error:
        yield Violation("redis", f"Redis takes no messages, so no sweep runs and pages are not live: {error}")


def find_late_sweeps(at: datetime) -> Iterator[Violation]:
    """Yields nothing while Redis is unreachable, because another rule reports that."""
    try:
        late = services.find_late_sweeps(services.get_sweep_ages())
    except (RedisError, OSError):
        return
    for name, age in late.items():
        yield Violation(name, f"the sweep {name} last started {age:.0f} s ago", {"seconds": round(age)})


def list_folders() -> dict[str, Path]:
    """Returns the directories that this host writes to, by what they contain."""
    folders = {
        "the home with the journal file": settings.STATECORE_HOME,
        "exports": settings.STATECORE_BACKUP_DIR,
        "archives": settings.STATECORE_ARCHIVE_DIR,
    }
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        folders["the database"] = Path(database["NAME"]).absolute().parent
    return {name: Path(path) for name, path in folders.items()}


def find_low_disks(at: datetime) -> Iterator[Violation]:
    """Yields one violation per disk, although several directories may be on it."""
    seen: set[int] = set()
    for name, path in list_folders().items():
        if not path.exists() or (device := path.stat().st_dev) in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(path).free // MEBIBYTE
        if free < get_limit("disk_free_mb"):
            yield Violation(str(path)[-128:], f"only {free} MiB are free for {name} in {path}", {"free_mb": free})


def find_wrong_clocks(at: datetime) -> Iterator[Violation]:
    limit = get_limit("clock_skew_seconds")
    for each in process_report.list_processes():
        if abs(each.clock_skew_seconds) > limit:
            ahead = "ahead of" if each.clock_skew_seconds > 0 else "behind"
            detail = f"the clock of {each} is {abs(each.clock_skew_seconds):.1f} s {ahead} the database's"
            yield Violation(each.host[:128], detail, {"seconds": each.clock_skew_seconds})


def find_silent_witnesses(at: datetime) -> Iterator[Violation]:
    for each in list_witnesses():
        if each.is_silent:
            since = f"since {format_utc(each.cosigned_at)}" if each.cosigned_at else "yet"
            yield Violation(each.name[:128], f"the witness {each.name} has cosigned nothing {since}")


# By the names of the rules.
CHECKS: dict[str, Callable[[datetime], Iterator[Violation]]] = {
    "process_silent": find_silent_processes,
    "process_restarts": find_restarted_processes,
    "no_leader": find_missing_leader,
    "sequencer_behind": find_lag,
    "broker_unreachable": find_unreachable_broker,
    "sweep_late": find_late_sweeps,
    "disk_low": find_low_disks,
    "clock_skew": find_wrong_clocks,
    "witness_silent": find_silent_witnesses,
}
