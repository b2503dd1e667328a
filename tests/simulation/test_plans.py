"""The same seed makes the same plans."""

from itertools import islice

import pytest

from statecore.machines.task import Task
from statecore.records import Phase
from statecore.scheduling import plans
from statecore.simulation import names
from statecore.simulation.plans import Planner


def planner(seed: int = 7, label: str = "sim7") -> Planner:
    return Planner(names.Names(seed, label).random("plans"), label, names.PHASE + label, timeout_sec=2)


def made(from_planner: Planner, number: int = 30) -> list[dict]:
    return list(islice(iter(from_planner.next_plan, None), number))


def test_the_same_seed_makes_the_same_plans() -> None:
    assert made(planner()) == made(planner())


def test_another_seed_makes_other_plans() -> None:
    assert made(planner(seed=8)) != made(planner())


def test_a_seed_played_again_differs_in_the_label_only() -> None:
    assert str(made(planner(label="sim7.2"))).replace("sim7.2", "sim7") == str(made(planner()))


@pytest.mark.django_db
def test_every_plan_holds_together() -> None:
    for plan in made(planner(), 200):
        plans.read(plan)


def test_the_plans_hold_everything_a_plan_may_hold() -> None:
    workstreams = [each for plan in made(planner(), 100) for each in plan["workstreams"]]
    tasks = [task for each in workstreams for task in each["tasks"]]
    gates = [gate for each in workstreams for gate in each["gates"]]
    for members, names_ in (
        (workstreams, ("depends_on", "is_critical", "gates")),
        (tasks, ("depends_on", "gates", "entry_gates", "is_critical", "priority")),
        (gates, ("depends_on",)),
    ):
        assert all(any(member.get(name) for member in members) for name in names_)
    assert any(task["payload"]["patch"] for task in tasks)
    assert {gate["gate_type"] for gate in gates} == {"LINT", "UNIT", "INTEGRATION", "SECURITY"}


@pytest.mark.django_db
def test_a_label_is_given_once() -> None:
    assert [names.reserve(7).label for _ in range(3)] == ["sim7", "sim7.2", "sim7.3"]
    assert Phase.objects.get(pk="simulation-sim7").forbidden_paths == ["secrets/*"]
    assert not Task.objects.exists()
