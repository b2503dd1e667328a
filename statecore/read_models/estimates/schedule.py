"""Simulates the rest of a run: open work starts when what it depends on has finished and a slot is free.

The durations are drawn from past ones. Running work counts among them as longer than it has been running: short work
finishes first, so the finished work alone would promise an early end. Each simulation first draws the past ones again,
with replacement, because a few of them say little about the mean of many.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import exp, log
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

MAX_STEPS = 60_000  # that all simulations of a run take together; each starts a piece of work
MIN_SIMULATIONS, MAX_SIMULATIONS = 12, 100
TAIL = 2.0  # work that takes longer than all before it takes half as long again, on average
FACTORS = 64  # of the variation of draws
BAND = 2.0  # standard deviations: 95 % of the simulations, so that 80 % of real runs end inside


@dataclass(slots=True)
class Work:
    """Open work: the places of what it depends on, and for how long it has been running, if it is."""

    before: list[int] = field(default_factory=list)
    running_for: float | None = None
    takes_time: bool = True  # a join of others, such as the end of a workstream, does not


class Band(NamedTuple):
    """In how many seconds the run ends: probably, and between which limits with a probability of 80 % or more."""

    earliest: float
    likely: float
    latest: float


class Durations:
    """A distribution of durations, from finished work and from work that is still running."""

    def __init__(self, finished: Sequence[float], running: Sequence[float], rng: Random) -> None:
        observed = sorted([(each, True) for each in finished] + [(each, False) for each in running])
        self.values, self.sums, weight, total = [], [], 1.0, 0.0
        for place, (value, is_finished) in enumerate(observed):
            if is_finished:
                total += weight
                self.values.append(value)
                self.sums.append(total)
            elif place + 1 < len(observed):
                # What is known to be longer counts as one of those that are.
                weight += weight / (len(observed) - place - 1)
        # A few durations say little about those between and beyond them, so each draw varies around one of them.
        logs = [log(max(1e-3, each)) for each in self.values]
        blur = stdev(logs) * len(logs) ** -0.2 if len(logs) > 1 else 0.0
        self.factors = [exp(rng.gauss(0.0, blur)) for _ in range(FACTORS)]
        self.longest = observed[-1][0]
        self.beyond = len(observed) - total  # the weight of what is longer than everything that has finished

    def draw(self, rng: Random, longer_than: float = 0.0) -> float:
        start = bisect_right(self.values, longer_than)
        skipped = self.sums[start - 1] if start else 0.0
        all_ = (self.sums[-1] if self.sums else 0.0) + self.beyond
        at = skipped + rng.random() * (all_ - skipped)
        place = bisect_right(self.sums, at)
        if place < len(self.values):
            return max(longer_than, self.values[place] * self.factors[int(rng.random() * FACTORS)])
        return max(self.longest, longer_than) * (1 + rng.expovariate(TAIL))


def forecast(works: Sequence[Work], slots: int, past: Sequence[float], rng: Random) -> Band:
    """`past` are durations of finished work; at least one."""
    count = max(MIN_SIMULATIONS, min(MAX_SIMULATIONS, MAX_STEPS // max(1, len(works))))
    known = [(each, True) for each in past] + [(w.running_for, False) for w in works if w.running_for is not None]
    ends = []
    for _ in range(count):
        drawn = rng.choices(known, k=len(known))
        durations = Durations([at for at, ended in drawn if ended], [at for at, ended in drawn if not ended], rng)
        ends.append(log(max(1e-3, _simulate(works, slots, durations, rng))))
    mean, spread = fmean(ends), BAND * stdev(ends)
    return Band(exp(mean - spread), exp(mean), exp(mean + spread))


def _simulate(works: Sequence[Work], slots: int, durations: Durations, rng: Random) -> float:
    """Returns in how many seconds the last work ends. Work on a cycle, which plans cannot have, would never start."""
    after: list[list[int]] = [[] for _ in works]
    waits = [len(work.before) for work in works]
    for place, work in enumerate(works):
        for each in work.before:
            after[each].append(place)
    ready = deque(place for place, work in enumerate(works) if not work.before and work.running_for is None)
    running = [
        (durations.draw(rng, work.running_for) - work.running_for, place)
        for place, work in enumerate(works)
        if work.running_for is not None
    ]
    heapify(running)
    at = 0.0
    while running or ready:
        while ready and (len(running) < slots or not works[ready[0]].takes_time):
            place = ready.popleft()
            heappush(running, (at + durations.draw(rng) if works[place].takes_time else at, place))
        at, ended = heappop(running)
        for place in after[ended]:
            waits[place] -= 1
            if not waits[place] and works[place].running_for is None:
                ready.append(place)
    return at
