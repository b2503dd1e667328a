"""Prometheus gauges about the installation itself: its processes, its sweeps and its restore drills."""

from __future__ import annotations

from collections.abc import Iterator

from redis.exceptions import RedisError

from ..kernel.clock import now
from ..read_models.database_gauge import DatabaseGauge
from ..records import process_report, restore_drill
from .doctor import services

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
