"""The band of an estimate contains the real end of at least eight of ten runs."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

import pytest

from statecore.read_models.estimates.schedule import Work, forecast

pytestmark = pytest.mark.once_on("sqlite")  # they use no database

RUNS = 90
LINKS = (0, 2)  # how many earlier tasks a task depends on, at most
SHARES = (0.2, 0.5, 0.8)  # of the tasks that have finished when the end is estimated


def make_plan(rng: Random, size: int, links: int) -> list[list[int]]:
    return [rng.sample(range(place), min(place, rng.randint(0, links))) for place in range(size)]


def execute(plan: list[list[int]], durations: list[float], slots: int) -> tuple[list[float], list[float]]:
    """When each task of a real run starts and ends; independent of the code under test."""
    starts, ends = [0.0] * len(plan), [0.0] * len(plan)
    waiting, running, done, at = list(range(len(plan))), [], set(), 0.0
    while waiting or running:
        for task in [each for each in waiting if done.issuperset(plan[each])]:
            if len(running) < slots:
                waiting.remove(task)
                starts[task], ends[task] = at, at + durations[task]
                heappush(running, (ends[task], task))
        at, task = heappop(running)
        done.add(task)
    return starts, ends


def test_eight_of_ten_runs_end_inside_the_band() -> None:
    inside, rng = 0, Random("runs")
    for number in range(RUNS):
        plan, slots = make_plan(rng, 60, LINKS[number % 2]), rng.randint(2, 8)
        durations = [rng.lognormvariate(3, 0.9) for _ in plan]
        starts, ends = execute(plan, durations, slots)
        at = sorted(ends)[int(len(plan) * SHARES[number % 3])]
        still_open = [task for task in range(len(plan)) if ends[task] > at]
        place = {task: number for number, task in enumerate(still_open)}
        works = [
            Work(
                [place[each] for each in plan[task] if each in place], at - starts[task] if starts[task] < at else None
            )
            for task in still_open
        ]
        band = forecast(works, slots, [durations[task] for task in range(len(plan)) if ends[task] <= at], rng)
        inside += band.earliest <= max(ends) - at <= band.latest
    assert inside >= 0.8 * RUNS


def test_the_band_is_narrow_when_durations_vary_little() -> None:
    works = [Work() for _ in range(400)]
    band = forecast(works, 10, [9.0, 10.0, 11.0] * 20, Random(1))

    assert band.earliest < 400 < band.latest * 1.02
    assert band.latest - band.earliest < 0.1 * band.likely


def test_a_chain_takes_as_long_as_its_parts_together() -> None:
    chain = [Work([place - 1] if place else []) for place in range(20)]

    assert forecast(chain, 8, [5.0], Random(1)).likely == pytest.approx(100)


def test_the_end_of_a_workstream_takes_no_slot_and_no_time() -> None:
    works = [Work(), Work([0], takes_time=False), Work([1])]

    assert forecast(works, 1, [5.0], Random(1)).likely == pytest.approx(10)
