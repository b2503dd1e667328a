"""The operations that victims perform on the entities that `stage` creates."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.records import approval
from statecore.transitions import RequestKey, approvals
from statecore.transitions.change import Change
from statecore.transitions.unit_of_work import UnitOfWork
from tests.races.contest import operator
from tests.support import world

BATCH = [f"batch-{n:03}" for n in range(50)]
REQUEST = RequestKey("key-1", "here", "hash")


def stage() -> None:
    for name in ("one", "two", *BATCH):
        made = world.created("UetWorker", id=name, worker_type="executor")
        world.fire(made, "initialization_completed")
    world.fire(world.created("PipelineJob", id="ended"), "cancel")
    ada = User.objects.create_superuser("ada")
    approval.request(
        actor=operator("ada"), account=ada.pk, expires_at=now() + timedelta(days=1), entity_type="uet_worker",
        entity_id="one", version=2, from_state="IDLE", to_state="DRAINING", reason="approved and then killed",
        category="emergency",
    )  # fmt: skip


def model(name: str) -> Any:
    return registry.flow(name).model


def create() -> None:
    transitions.create(model("uet_worker"), actor=THE_SYSTEM, id="newborn", worker_type="executor")


def transition(**given: Any) -> None:
    transitions.transition(model("uet_worker"), "one", "task_assigned", actor=THE_SYSTEM, **given)


def keyed_transition() -> None:
    transition(request=REQUEST)


def cascade() -> None:
    """A transition with a reaction that changes another entity in the same transaction."""

    def follow(work: UnitOfWork, changes: list[Change]) -> None:
        (change,) = changes
        if change.entity.pk == "one":
            given = {"actor": THE_SYSTEM, "cause": change.entry, "within": work}
            transitions.transition(type(change.entity), "two", "task_assigned", **given)

    registry.reactions.insert(0, ("", follow))
    try:
        transition()
    finally:
        registry.reactions.remove(("", follow))


def override() -> None:
    details = {"reason": "forced and then killed", "category": "emergency"}
    transitions.override(model("uet_worker"), "one", "DRAINING", actor=operator(), **details)


def approve() -> None:
    """Approves the request that `stage` has stored; its decision and its override are one transaction."""
    approvals.approve(approval.Approval.objects.get().pk, actor=operator("bob", account=10**6))


def retry() -> None:
    transitions.retry(model("pipeline_job"), "ended", actor=THE_SYSTEM)


def batch() -> None:
    transitions.transition_many(model("uet_worker"), BATCH, "task_assigned", actor=THE_SYSTEM)


def there_and_back() -> None:
    """Makes two transitions in turn, so that it can repeat without end."""
    is_idle = model("uet_worker").objects.get(pk="one").state == "IDLE"
    trigger = "task_assigned" if is_idle else "task_completed"
    transitions.transition(model("uet_worker"), "one", trigger, actor=THE_SYSTEM)
