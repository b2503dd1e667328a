"""A small world for the pages, created by the transition service, with positions and counters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from statecore import scheduling
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.sink import read_batch
from statecore.delivery.sinks.trends import Trends
from statecore.journal import Event, Position, position
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.records import Alert, Approval, Phase, approval, sink_cursor
from statecore.records.alert import now
from tests.support import world


@dataclass
class Scene:
    run: Any
    first: Any
    second: Any
    forced: Any
    alert: Any


def build() -> Scene:
    Phase.objects.get_or_create(id="PH-scene")
    tasks = [{"id": "scene-t1"}, {"id": "scene-t2", "depends_on": ["scene-t1"]}, {"id": "scene-t3"}]
    plan = {"id": "scene", "phase": "PH-scene", "start": True, "workstreams": [{"id": "scene-w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    forced = world.forced(Task.objects.get(pk="scene-t3"), "cancelled")
    alert = Alert.objects.create(
        rule="stuck", key="scene", severity="warning", detail="something is late", opened_at=now()
    )
    number_all()
    return Scene(
        run=Run.objects.get(pk="scene"),
        first=Task.objects.get(pk="scene-t1"),
        second=Task.objects.get(pk="scene-t2"),
        forced=forced,
        alert=alert,
    )


def number_all() -> None:
    """Does the sequencer's work for uncommitted events, because each test is rolled back."""
    head = position.head()
    new = Event.objects.exclude(pk__in=Position.objects.values("event_id")).order_by("timestamp", "event_id")
    rows = [_position(place, event) for place, event in enumerate(new, head + 1)]
    with world.disable_write_guard():
        Position.objects.bulk_create(rows)
    position.Numbering.objects.update_or_create(pk=1, defaults={"head": head + len(rows)})
    batch, trends = read_batch(head, len(rows)), Trends()
    Counters().deliver(batch)
    trends.recover(sink_cursor.get_position(trends.name))
    trends.deliver(batch)


def _position(place: int, event: Event) -> Position:
    columns = {name: getattr(event, name) for name in ("entity_type", "kind", "severity", "actor")}
    return Position(position=place, event=event, run_id=event.as_dict()["context"].get("run_id", ""), **columns)


def fresh(scene: Scene) -> Scene:
    """The scene with its rows reloaded: an earlier test may have changed the objects before its rollback."""
    rows = {name: type(row).objects.get(pk=row.pk) for name, row in vars(scene).items()}
    return Scene(**rows)


def last_forced() -> str:
    return str(Event.objects.filter(kind="override").latest("event_id").pk)


def decode_journal(page: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Part, time in milliseconds and state of each event, as the browser reads them."""
    events, at = [], 0
    for part, state, since in zip(*[iter(page["events"])] * 3, strict=True):
        at += since
        events.append((page["parts"][part], at, page["states"][state]))
    return events


def pending_approval() -> str:
    """Returns a request for approval by an account that no test uses."""
    if (found := Approval.objects.filter(entity_id="scene-t1").first()) is not None:
        return found.pk
    task = Task.objects.get(pk="scene-t1")
    asked = {"version": task.version, "from_state": task.state, "to_state": "failed", "policies": ["task->failed"]}
    made = approval.request(
        actor=world.operator("grace"),
        account=10**9,
        expires_at=now() + timedelta(hours=1),
        entity_type="task",
        entity_id=task.pk,
        reason=world.REASON,
        category="other",
        **asked,
    )
    return str(made.pk)
