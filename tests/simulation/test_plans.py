"""Generated plans are valid and depend only on the seed."""

from itertools import islice

import pytest

from statecore.devtools.simulation import names
from statecore.devtools.simulation.plans import PlanGenerator
from statecore.machines.task import Task
from statecore.records import Phase
from statecore.scheduling import plan_document


def generator(seed: int = 7, label: str = "sim7") -> PlanGenerator:
    return PlanGenerator(names.Names(seed, label).random("plans"), label, names.PHASE + label, timeout_sec=2)


def generate(plan_generator: PlanGenerator, number: int = 30) -> list[dict]:
    return list(islice(iter(plan_generator.next_plan, None), number))


def test_the_same_seed_makes_the_same_plans() -> None:
    assert generate(generator()) == generate(generator())


def test_another_seed_makes_other_plans() -> None:
    assert generate(generator(seed=8)) != generate(generator())


def test_a_repeated_seed_differs_only_in_the_label() -> None:
    assert str(generate(generator(label="sim7.2"))).replace("sim7.2", "sim7") == str(generate(generator()))


@pytest.mark.django_db
def test_reading_a_simulated_plan_does_not_raise() -> None:
    for plan in generate(generator(), 200):
        plan_document.read_plan(plan, plan_document.MAX_ENTITIES)


def test_the_plans_use_every_feature_of_a_plan() -> None:
    workstreams = [each for plan in generate(generator(), 100) for each in plan["workstreams"]]
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
def test_labels_are_unique() -> None:
    assert [names.reserve(7).label for _ in range(3)] == ["sim7", "sim7.2", "sim7.3"]
    assert Phase.objects.get(pk="simulation-sim7").forbidden_paths == ["secrets/*"]
    assert not Task.objects.exists()
