"""Creates a run of many tasks in the middle of its work: finished, failed, retried, running and waiting tasks.

The plan is submitted by the transition service. What happened since is written set-based, past its guards.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F

STREAM = 125  # tasks per workstream, at most
DONE_SHARE, FAILED_EVERY, RUNNING_SHARE = 0.7, 40, 0.02
WORKERS = 40


class Step(NamedTuple):
    row: Any
    sequence: int
    from_state: str
    to_state: str
    at: datetime


def create_run(run_id: str, tasks: int) -> None:
    from statecore import scheduling
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Phase

    Phase.objects.get_or_create(id="phase")
    plan = {"id": run_id, "phase": "phase", "start": True, "workstreams": list(_workstreams(run_id, tasks))}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    _write_history(run_id)


def _workstreams(run_id: str, tasks: int) -> Iterator[dict[str, Any]]:
    """Each depends on up to two of those before; each task on up to two earlier ones of its workstream."""
    rng = Random(run_id)  # noqa: S311 - the same run each time
    streams = max(3, -(-tasks // STREAM))
    for number in range(streams):
        name, size = f"{run_id}-w{number:03}", tasks // streams + (number < tasks % streams)
        listed = [
            {"id": f"{name}-t{task:03}", "depends_on": _some(rng, [f"{name}-t{each:03}" for each in range(task)])}
            for task in range(size)
        ]
        before = [f"{run_id}-w{each:03}" for each in range(max(0, number - 8), number)]
        yield {"id": name, "depends_on": _some(rng, before), "tasks": listed}


def _some(rng: Random, among: list[str]) -> list[str]:
    return sorted(rng.sample(among, min(len(among), rng.choice((0, 1, 1, 2)))))


def _write_history(run_id: str) -> None:
    from statecore.machines.task import Task
    from statecore.machines.workstream import Workstream
    from statecore.storage import triggers

    tasks = list(Task.objects.filter(run=run_id).order_by("id"))
    streams = list(Workstream.objects.filter(run=run_id))
    steps = [*_task_steps(tasks), *_stream_steps(streams, tasks)]
    with triggers.disabled(connection):
        _write_events(run_id, steps)
        Task.objects.bulk_update(tasks, CHANGED_TASK, batch_size=500)
        Workstream.objects.bulk_update(streams, CHANGED, batch_size=500)
        _move_into_the_past(run_id, max(step.at for step in steps))


def _move_into_the_past(run_id: str, last: datetime) -> None:
    from statecore.journal import Event, Position
    from statecore.kernel.clock import now
    from statecore.machines.run import Run
    from statecore.machines.task import Task
    from statecore.machines.workstream import Workstream

    by, same = last - now(), ("created_at", "updated_at", "state_entered_at")
    ran = ("started_at", "completed_at")
    for rows, columns in (
        (Run.objects.filter(pk=run_id), (*same, "started_at")),
        (Workstream.objects.filter(run=run_id), same),
        (Task.objects.filter(run=run_id), (*same, *ran)),
        (Event.objects.filter(pk__in=Position.objects.filter(run_id=run_id).values("event_id")), ("timestamp",)),
    ):
        rows.update(**{column: F(column) - by for column in columns})


CHANGED = ("state", "version", "chain_head", "state_entered_at")
CHANGED_TASK = (*CHANGED, "started_at", "completed_at", "attempt", "worker", "last_worker", "last_error")


def _task_steps(rows: list[Any]) -> Iterator[Step]:
    """Sets each row to its last state and yields the steps there."""
    from statecore import transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.worker import Worker

    names = [f"{rows[0].run_id}-worker{number:02}" for number in range(WORKERS)]
    workers = [transitions.create(Worker, actor=THE_SYSTEM, id=name).entity for name in names]
    rng, done = Random(len(rows)), int(len(rows) * DONE_SHARE)  # noqa: S311 - the same run each time
    for number, row in enumerate(rows[: int(len(rows) * (DONE_SHARE + RUNNING_SHARE))]):
        worker, at = rng.choice(workers), row.created_at + timedelta(seconds=number * 0.3)
        fails = number % FAILED_EVERY == FAILED_EVERY // 2
        row.attempt, row.last_worker = 1, worker.pk
        yield from _move(row, ("queued", at), ("running", at := at + timedelta(seconds=rng.uniform(1, 60))))
        row.started_at = at
        if number < done:
            row.completed_at = at + timedelta(seconds=rng.lognormvariate(3, 0.8))
            yield from _move(row, ("failed" if fails else "completed", row.completed_at))
            row.last_error = "exit code 1: the linter found 3 problems" if fails else ""
        else:
            row.worker = worker


def _stream_steps(streams: list[Any], tasks: list[Any]) -> Iterator[Step]:
    for stream in streams:
        own = [task for task in tasks if task.workstream_id == stream.pk]
        started = [task.started_at for task in own if task.started_at]
        if not started:
            continue
        yield from _move(stream, ("executing", min(started)))
        if all(task.state == "completed" for task in own):
            yield from _move(stream, ("completed", max(task.completed_at for task in own)))


def _move(row: Any, *moves: tuple[str, datetime]) -> Iterator[Step]:
    for state, at in moves:
        if row.state != state:
            row.version += 1
            yield Step(row, row.version, row.state, state, at)
            row.__dict__["state"] = state  # past the guard against exactly this
            row.state_entered_at = at


def _write_events(run_id: str, steps: list[Step]) -> None:
    from statecore.journal import Event, Position
    from statecore.journal.position import Numbering

    events = [_build_event(run_id, step) for step in sorted(steps, key=lambda each: (each.at, each.sequence))]
    Event.objects.bulk_create(events, batch_size=2_000)
    created = Event.objects.exclude(pk__in=Position.objects.values("event_id")).order_by("timestamp", "event_id")
    positions = [
        Position(
            position=place,
            event=event,
            run_id=run_id if event.entity_type != "worker" else "",
            **{name: getattr(event, name) for name in ("entity_type", "kind", "severity", "actor")},
        )
        for place, event in enumerate(created.defer("body"), (Numbering.objects.first() or Numbering()).head + 1)
    ]
    Position.objects.bulk_create(positions, batch_size=2_000)
    Numbering.objects.update_or_create(pk=1, defaults={"head": positions[-1].position})


def _build_event(run_id: str, step: Step) -> Any:
    from statecore.journal import Event
    from statecore.journal.events import build_entry

    row = step.row
    entry = build_entry(
        entity_type=row.flow.entity_type,
        entity_id=row.pk,
        sequence=step.sequence,
        prev_hash=row.chain_head,
        kind="normal",
        trigger="benchmark",
        from_state=step.from_state,
        to_state=step.to_state,
        severity="error" if step.to_state == "failed" else "info",
        actor="benchmark",
        channel="internal",
        at=step.at,
        details={"actor_kind": "system", "context": {"run_id": run_id}, "dwell_seconds": 1.0, "reason": ""},
    )
    row.chain_head = entry.hash
    return Event(**entry._asdict())
