"""What victims do, each with the entities that `stage` has put there for it."""

from __future__ import annotations

from typing import Any

from statecore import door
from statecore.door import RequestKey
from statecore.door.change import Change
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from tests.races.contest import operator
from tests.support import world

BATCH = [f"batch-{n:03}" for n in range(50)]
REQUEST = RequestKey("key-1", "here", "hash")


def stage() -> None:
    for name in ("one", "two", *BATCH):
        made = world.created("UetWorker", id=name, worker_type="executor")
        world.fire(made, "initialization_completed")
    world.fire(world.created("PipelineJob", id="ended"), "cancel")


def model(name: str) -> Any:
    return registry.flow(name).model


def create() -> None:
    door.create(model("uet_worker"), actor=THE_SYSTEM, id="newborn", worker_type="executor")


def transition(**given: Any) -> None:
    door.transition(model("uet_worker"), "one", "task_assigned", actor=THE_SYSTEM, **given)


def keyed_transition() -> None:
    transition(request=REQUEST)


def cascade() -> None:
    """A move whose reaction moves another entity in the same transaction."""

    def follow(changes: list[Change]) -> None:
        (change,) = changes
        if change.entity.pk == "one":
            door.transition(type(change.entity), "two", "task_assigned", actor=THE_SYSTEM, cause=change.entry)

    registry.reactions.insert(0, follow)
    try:
        transition()
    finally:
        registry.reactions.remove(follow)


def override() -> None:
    details = {"reason": "forced and then killed", "category": "emergency"}
    door.override(model("uet_worker"), "one", "DRAINING", actor=operator(), **details)


def retry() -> None:
    door.retry(model("pipeline_job"), "ended", actor=THE_SYSTEM)


def batch() -> None:
    door.transition_many(model("uet_worker"), BATCH, "task_assigned", actor=THE_SYSTEM)


def there_and_back() -> None:
    """One of two moves in turn, so that it can be done for ever."""
    is_idle = model("uet_worker").objects.get(pk="one").state == "IDLE"
    trigger = "task_assigned" if is_idle else "task_completed"
    door.transition(model("uet_worker"), "one", trigger, actor=THE_SYSTEM)
