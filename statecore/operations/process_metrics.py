"""Prometheus gauges about the installation itself: its processes, its sweeps and its restore drills."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from redis.exceptions import RedisError

from ..kernel.clock import now
from ..read_models.database_gauge import DatabaseGauge
from ..records import LeaderLease, leader_lease, process_report, restore_drill
from .doctor import services
from .watch.problems import list_folders

LABELS = ("role", "name", "host")


class ProcessUp(DatabaseGauge):
    name = "statecore_process_up"
    documentation = "1 while a process reports; 0 after it became silent without signing off"
    labels = LABELS

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        at = now()
        up: dict[tuple[str, ...], float] = {}
        for each in process_report.list_processes():
            key = (each.role, each.name, each.host)
            up[key] = min(up.get(key, 1.0), 0.0 if each.is_silent(at) else 1.0)
        return iter(up.items())


class ProcessMemory(DatabaseGauge):
    name = "statecore_process_memory_bytes"
    documentation = "Memory of a process and its children, of shared memory their part, as last reported"
    labels = LABELS

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        memory: dict[tuple[str, ...], float] = {}
        for each in process_report.list_processes():
            key = (each.role, each.name, each.host)
            memory[key] = memory.get(key, 0.0) + each.memory_bytes
        return iter(memory.items())


class RestoreDrillAge(DatabaseGauge):
    name = "statecore_restore_drill_age_seconds"
    documentation = "Seconds since a scheduled restore drill last succeeded, and since one last failed"
    labels = ("outcome",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        at = now()
        for outcome, has_failed in (("success", False), ("failure", True)):
            if ended := restore_drill.find_last_end(has_failed=has_failed):
                yield (outcome,), max(0.0, (at - ended).total_seconds())


class ProcessRestarts(DatabaseGauge):
    name = "statecore_process_restarts"
    documentation = "How often a process was started in place of one that died, each within half an hour"
    labels = LABELS

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        restarts: dict[tuple[str, ...], float] = {}
        for each in process_report.list_processes():
            key = (each.role, each.name, each.host)
            restarts[key] = max(restarts.get(key, 0.0), each.restarts)
        return iter(restarts.items())


class LeaderUp(DatabaseGauge):
    name = "statecore_leader_up"
    documentation = "1 while a process leads: `sequencer` numbers events, `watch` evaluates the system rules"
    labels = ("name",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        missing = set(leader_lease.list_missing())
        for name in LeaderLease.objects.values_list("name", flat=True):
            yield (name,), 0.0 if name in missing else 1.0


class LeaderTerm(DatabaseGauge):
    name = "statecore_leader_term"
    documentation = "The term of the last leader; it increases with each new one"
    labels = ("name",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((name,), term) for name, term in LeaderLease.objects.values_list("name", "term"))


class DiskFree(DatabaseGauge):
    name = "statecore_disk_free_bytes"
    documentation = "Free space for what Statecore writes, as the web process sees it"
    labels = ("directory",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        for path in set(list_folders().values()):
            if path.exists():
                yield (str(path),), shutil.disk_usage(path).free


class SweepSeconds(DatabaseGauge):
    name = "statecore_sweep_seconds"
    documentation = "How long the last complete run of a sweep took; absent while Redis is unreachable"
    labels = ("sweep",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        try:
            durations = services.get_sweep_durations()
        except (RedisError, OSError):
            return
        yield from (((name,), seconds) for name, seconds in sorted(durations.items()))


class SweepAge(DatabaseGauge):
    name = "statecore_sweep_age_seconds"
    documentation = "Seconds since a sweep last started; absent while Redis is unreachable"
    labels = ("sweep",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        try:
            ages = services.get_sweep_ages()
        except (RedisError, OSError):
            return
        yield from (((name,), age) for name, age in sorted(ages.items()))
