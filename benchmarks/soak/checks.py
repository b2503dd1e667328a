"""Reads the outcome of a soak test from the database and the files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from time import monotonic, sleep
from typing import Any

POLL_SECONDS = 0.5
SILENT = "live_workers_are_heard_from"  # vanished workers are noticed only after minutes


def collect(home: str) -> dict[str, Any]:
    """Returns counts and the lists of violations. Runs in a separate process with Django."""
    from statecore.journal import Event, EventKind, Position
    from statecore.machines.run import Run
    from statecore.machines.task import Task
    from statecore.operations import integrity

    reports = Counter(Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True))
    return {
        "events": Event.objects.count(),
        "hidden": list(Position.objects.filter(kind=EventKind.ACCOUNT).values_list("position", flat=True)),
        "runs": Run.objects.count(),
        "tasks": sorted(Task.objects.values_list("pk", flat=True)),
        "attempts": sum(Task.objects.values_list("retry_count", flat=True)) + Task.objects.count(),
        "unfinished": sorted(Task.objects.exclude(state="completed").values_list("pk", flat=True)),
        "unsuccessful": sorted(Run.objects.exclude(state="succeeded").values_list("pk", flat=True)),
        "twice": sorted(task for task, times in reports.items() if times > 1),
        "findings": [str(finding) for finding in integrity.check_all() if finding.check != SILENT],
        "written": [json.loads(line)["position"] for line in (Path(home) / "transitions.jsonl").open()],
    }


def count_events() -> int:
    from statecore.journal import Event

    return Event.objects.count()


def wait_until_settled(patience: float) -> None:
    """Waits until every run has ended and every sink has processed every event."""
    began = monotonic()
    while not _is_settled():
        if monotonic() - began > patience:
            raise RuntimeError(f"runs or sinks had not finished after {patience:.0f} seconds")
        sleep(POLL_SECONDS)


def _is_settled() -> bool:
    from statecore.journal import Event
    from statecore.machines import run
    from statecore.records import SinkCursor

    total = Event.objects.count()
    positions = list(SinkCursor.objects.values_list("position", flat=True))
    return not run.Run.objects.exclude(state__in=run.FINAL).exists() and bool(positions) and min(positions) >= total
