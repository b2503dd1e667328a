"""A small world for the pages: made through the door, numbered by the sequencer, counted by its sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statecore import scheduling
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.records import Alert, Phase, Position, position
from statecore.records.alert import now
from statecore.sinks import numbered
from statecore.sinks.counters import Counters
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
    scheduling.submit(plan, actor=THE_SYSTEM)
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
    """What the sequencer does, for events that nobody has committed: each test is rolled back."""
    head = position.head()
    new = Event.objects.exclude(pk__in=Position.objects.values("event_id")).order_by("timestamp", "event_id")
    rows = [_position(place, event) for place, event in enumerate(new, head + 1)]
    with world.open_gate():
        Position.objects.bulk_create(rows)
    position.Numbering.objects.update_or_create(pk=1, defaults={"head": head + len(rows)})
    Counters().deliver(numbered.read(head, len(rows)))


def _position(place: int, event: Event) -> Position:
    told = {name: getattr(event, name) for name in ("entity_type", "kind", "severity", "actor")}
    return Position(position=place, event=event, run_id=event.as_dict()["context"].get("run_id", ""), **told)


def fresh(scene: Scene) -> Scene:
    """The same with its rows read anew: a test before may have changed them, and was rolled back."""
    rows = {name: type(row).objects.get(pk=row.pk) for name, row in vars(scene).items()}
    return Scene(**rows)


def last_forced() -> str:
    return str(Event.objects.filter(kind="override").latest("event_id").pk)
