"""The repair loop in a real repository: a patch fails its gate, is repaired, passes and is committed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from statecore.api.claims import ClaimFields, claim_once
from statecore.executors import patches
from statecore.executors.gates import find_due, run_gate
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.records import Patch
from statecore.scheduling import register, submit_patch, submit_plan
from tests.executors.support import python
from tests.executors.work_tree import diff_replacing
from tests.support import world
from tests.support.world import AGENT

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db]

CHECK = "import sys; text = open('hello.txt').read(); print('found', text.split()); sys.exit('zwei' not in text)"


def attempt(number: int, diff: str) -> dict[str, Any]:
    """Claim the task, hand in a patch, report, and let the executors work."""
    (claimed,) = claim_once("w1", ClaimFields(), AGENT)["tasks"]
    text = Patch.objects.create(id=f"diff-{number}", diff=diff)
    submit_patch(PatchLedger, actor=AGENT, task="t", attempt=claimed["attempt"], id=f"p{number}", patch=text.pk)
    world.fire(Task.objects.get(), "execution_completed", actor=AGENT, attempt=claimed["attempt"], exit_code=0)
    patches.run_due(wait=0)
    for gate_id in find_due():
        run_gate(gate_id)
    return dict(claimed)


def test_a_patch_fails_is_repaired_passes_and_is_committed(work_tree: Any, settings: Any) -> None:
    settings.STATECORE_GATE_COMMANDS, settings.STATECORE_GATE_FOLDER = (sys.executable,), work_tree.path
    gate = {"id": "g", "gate_type": "UNIT", "command": python(CHECK)}
    task = {"id": "t", "gates": ["g"], "max_repairs": 1}
    plan = {"id": "r", "phase": world.phase().pk, "start": True}
    submit_plan({**plan, "workstreams": [{"id": "w", "tasks": [task], "gates": [gate]}]}, actor=world.operator())
    register(Worker, actor=AGENT, id="w1")

    assert attempt(1, diff_replacing("two", "deux"))["previous"] is None
    assert (Task.objects.get().state, work_tree.read()) == ("queued", "one\ntwo\nthree\n")
    previous = attempt(2, diff_replacing("two", "zwei"))["previous"]

    assert (previous["patch"], "found ['one', 'deux', 'three']" in previous["output"]) == ("p1", True)
    states = dict(PatchLedger.objects.values_list("pk", "state"))
    assert states == {"p1": "dropped", "p2": "committed"}
    assert (work_tree.read(), Run.objects.get().state) == ("one\nzwei\nthree\n", "succeeded")
