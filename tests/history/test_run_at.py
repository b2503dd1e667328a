"""The state of a run at a past time, folded from the journal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from statecore import scheduling
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.kernel.clock import now
from statecore.kernel.refusals import NotFound
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.read_models import history
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)
AGENT = Actor.agent("w-1")


def states(snapshot: dict[str, Any]) -> dict[str, str]:
    return {each["id"]: each["state"] for each in snapshot["tasks"]}


def test_a_run_is_reconstructed_at_each_moment() -> None:
    start = now().replace(microsecond=0)
    with time_machine.travel(start, tick=False) as clock:
        phase = world.phase()
        world.idle_worker(id="w-1")
        plan = {
            "id": "r-1",
            "phase": phase.pk,
            "workstreams": [{"id": "ws-1", "tasks": [{"id": "t-1"}, {"id": "t-2", "depends_on": ["t-1"]}]}],
            "start": True,
        }
        scheduling.submit_plan(plan, actor=THE_SYSTEM)
        clock.shift(timedelta(minutes=1))
        (task,) = scheduling.claim("w-1", actor=AGENT)
        clock.shift(timedelta(minutes=1))
        world.fire(task, "execution_completed", actor=AGENT, attempt=1, exit_code=0)

    with pytest.raises(NotFound):
        history.get_run_at("r-1", start - timedelta(seconds=1))
    then = history.get_run_at("r-1", start + timedelta(seconds=30))
    assert states(then) == {"t-1": "queued", "t-2": "blocked"}
    assert (then["run"]["id"], then["run"]["state"]) == ("r-1", "running")
    assert [each["id"] for each in then["workstreams"]] == ["ws-1"]
    assert then["tasks"][0]["workstream"] == "ws-1"
    assert states(history.get_run_at("r-1", start + timedelta(seconds=90))) == {"t-1": "running", "t-2": "blocked"}

    last = history.get_run_at("r-1", now() + timedelta(hours=1))
    assert states(last) == {each.pk: each.state for each in Task.objects.all()}
    assert last["run"]["state"] == Run.objects.get().state
    assert last["counts"]["tasks"] == {"completed": 1, "queued": 1}


def test_an_unknown_run_is_not_found() -> None:
    with pytest.raises(NotFound):
        history.get_run_at("r-404")
