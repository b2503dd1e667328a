"""A train is loaded in the transaction in which its run succeeds."""

from __future__ import annotations

from typing import Any

from statecore.framework.extensions import SYSTEM_ACTOR, Change, UnitOfWork, transitions

from .models import State, Train


def load_trains(work: UnitOfWork, changes: list[Change]) -> None:
    succeeded: dict[Any, Change] = {
        change.entity.pk: change for change in changes if change.entry.to_state == "succeeded"
    }
    waiting = Train.objects.filter(run__in=succeeded, state=State.BOARDING)
    for train_id, run_id in waiting.values_list("pk", "run_id"):
        transitions.transition(
            Train, train_id, "run_succeeded", actor=SYSTEM_ACTOR, cause=succeeded[run_id].entry, within=work
        )
