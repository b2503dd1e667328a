"""Random walks over one machine and over whole plans keep every guarantee."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from statecore.kernel.flow import Flow
from tests.machines import worlds
from tests.properties.support import SETTINGS
from tests.properties.walk import Walk
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)
def test_a_walk_over_one_machine_keeps_every_guarantee(flow: Flow) -> None:
    walk = lambda: Walk(lambda: [worlds.create_entity(flow)])  # noqa: E731 - hypothesis calls it for each example
    run_state_machine_as_test(walk, settings=settings(SETTINGS, max_examples=4, stateful_step_count=20))


def a_plan() -> list[Any]:
    """A run of two workstreams, the second waiting for the first, with tasks, gates, a patch and workers."""
    run = world.run()
    first = world.workstream(run=run)
    second = world.workstream(run=run, depends_on=[first.pk], is_critical=True)
    entry, exit_ = world.gate(workstream=first), world.gate(workstream=first)
    patch = world.patch(workstream=first)
    one = world.task(workstream=first, gates=[exit_.pk], patch=patch, max_retries=1)
    two = world.task(workstream=first, depends_on=[one.pk], entry_gates=[entry.pk], is_critical=True)
    three = world.task(workstream=second)
    workers = [world.idle_worker(), world.worker()]
    return [run, first, second, entry, exit_, patch, one, two, three, *workers]


def test_a_walk_over_a_whole_plan_keeps_every_guarantee() -> None:
    run_state_machine_as_test(lambda: Walk(a_plan), settings=settings(SETTINGS, max_examples=3, stateful_step_count=40))
