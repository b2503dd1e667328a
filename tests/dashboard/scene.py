"""A small world for the pages: made through the door, numbered by the sequencer, counted by its sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statecore import scheduling
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.records import Alert, Phase
from statecore.records.alert import now
from statecore.sinks.counters import Counters
from tests.support import world
from tests.support.sequencer import catch_up


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
    catch_up(Counters())
    return Scene(
        run=Run.objects.get(pk="scene"),
        first=Task.objects.get(pk="scene-t1"),
        second=Task.objects.get(pk="scene-t2"),
        forced=forced,
        alert=alert,
    )


def fresh(scene: Scene) -> Scene:
    """The same with its rows read anew: a test before may have changed them, and was rolled back."""
    rows = {name: type(row).objects.get(pk=row.pk) for name, row in vars(scene).items()}
    return Scene(**rows)


def last_forced() -> str:
    from statecore.journal import Event

    return str(Event.objects.filter(kind="override").latest("event_id").pk)
