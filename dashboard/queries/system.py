"""What the page of the system shows: problems, processes, leaders, sinks, sweeps, broker, disks and witnesses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connection
from django.db.models.functions import Now
from django.utils.safestring import SafeString
from redis.exceptions import RedisError

from statecore import __version__
from statecore.delivery.sequencer import measure_lag
from statecore.delivery.sinks import alerts
from statecore.delivery.sinks.alert_rules import get_limit
from statecore.journal.checkpoints import SignedCheckpoint, latest_checkpoint
from statecore.journal.position import head
from statecore.journal.witnesses import WitnessStatus, list_witnesses
from statecore.kernel.clock import now
from statecore.operations.doctor import services
from statecore.operations.watch import problems
from statecore.records import Alert, LeaderLease, ProcessReport, SinkCursor, process_report

from . import runbook


class Problem(NamedTuple):
    alert: Alert
    runbook: SafeString


class Process(NamedTuple):
    report: ProcessReport
    is_silent: bool
    has_other_version: bool
    clock_is_wrong: bool


class Sink(NamedTuple):
    name: str
    position: int
    lag: float
    is_behind: bool


class Sweep(NamedTuple):
    name: str
    interval: timedelta
    started_at: datetime | None
    took: float | None
    next_at: datetime | None
    is_late: bool


class Disk(NamedTuple):
    name: str
    path: Path
    free: int
    total: int
    is_low: bool


@dataclass(frozen=True)
class Broker:
    error: str = ""
    version: str = ""
    memory: int = 0
    limit: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class Database:
    name: str
    size: int


def list_problems() -> list[Problem]:
    """The open alerts about the installation itself, the worst first."""
    return [Problem(alert, runbook.render_section(alert.rule)) for alert in alerts.list_problems()]


def list_processes(at: datetime) -> list[Process]:
    limit = get_limit("clock_skew_seconds")
    return [
        Process(each, each.is_silent(at), each.version != __version__, abs(each.clock_skew_seconds) > limit)
        for each in process_report.list_processes()
    ]


def list_leaders() -> list[LeaderLease]:
    return list(LeaderLease.objects.exclude(holder="").filter(expires_at__gt=Now()).order_by("name"))


def list_sinks() -> list[Sink]:
    """The numbering of events first, which all sinks wait for."""
    lags, last = measure_lag(), head()
    positions = {"numbering": last, **dict(SinkCursor.objects.order_by("sink").values_list("sink", "position"))}
    return [
        Sink(name, position, lags.get(name, 0.0), lags.get(name, 0.0) > problems.get_max_lag())
        for name, position in positions.items()
    ]


def read_sweeps(at: datetime) -> list[Sweep]:
    """The sweeps that beat schedules, the most frequent first. Raises RedisError or OSError."""
    ages, durations = services.get_sweep_ages(), services.get_sweep_durations()
    late = services.find_late_sweeps(ages)
    return [
        _describe_sweep(name, seconds, ages.get(name), durations.get(name), name in late, at)
        for name, seconds in sorted(services.get_intervals().items(), key=lambda each: each[1])
    ]


def _describe_sweep(
    name: str, seconds: float, age: float | None, took: float | None, is_late: bool, at: datetime
) -> Sweep:
    interval = timedelta(seconds=seconds)
    started_at = at - timedelta(seconds=age) if age is not None else None
    return Sweep(name, interval, started_at, took, started_at + interval if started_at else None, is_late)


def read_broker() -> Broker:
    try:
        with services.open_redis() as redis:
            info: Any = redis.info()
            waiting = sum(redis.llen(name) for name in services.QUEUES)
    except (RedisError, OSError) as error:
        return Broker(error=str(error) or type(error).__name__)
    return Broker("", info["redis_version"], info["used_memory"], info.get("maxmemory", 0), waiting)


def list_disks() -> Iterator[Disk]:
    """The directories of this host that Statecore writes to."""
    limit = get_limit("disk_free_mb") * problems.MEBIBYTE
    for name, path in problems.list_folders().items():
        if path.exists():
            usage = shutil.disk_usage(path)
            yield Disk(name, path, usage.free, usage.total, usage.free < limit)


def read_database() -> Database:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT current_setting('server_version'), pg_database_size(current_database())")
            version, size = cursor.fetchone()
            return Database(f"PostgreSQL {version.partition(' ')[0]}", size)
        cursor.execute("SELECT sqlite_version(), page_count * page_size FROM pragma_page_count, pragma_page_size")
        version, size = cursor.fetchone()
        return Database(f"SQLite {version}", size)


def read_signatures() -> tuple[SignedCheckpoint | None, list[WitnessStatus]]:
    return latest_checkpoint(), list_witnesses()


def read_system() -> dict[str, Any]:
    at = now()
    processes, found, signatures = list_processes(at), list_problems(), read_signatures()
    broker = read_broker()
    return {
        "problems": found,
        "processes": processes,
        "versions": sorted({each.report.version for each in processes}),
        "memory": sum(each.report.memory_bytes for each in processes),
        "leaders": list_leaders(),
        "sinks": list_sinks(),
        "sweeps": [] if broker.error else read_sweeps(at),
        "broker": broker,
        "disks": list(list_disks()),
        "database": read_database(),
        "signed": signatures[0],
        "witnesses": signatures[1],
        "version": __version__,
    }
