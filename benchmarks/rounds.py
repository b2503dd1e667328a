"""Runs contenders in turn, in short rounds with the same number of transitions each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import seed
from benchmarks.contenders import PEERS
from benchmarks.support import Clients, environ, ratio, run_in_process

# The kind of rows each contender changes.
ROWS = {
    "raw": "running",
    "Statecore": "running",
    "django-fsm-log": "number",
    "ORM": "number",
    "raw uet_worker": "uet",
    "Statecore uet_worker": "uet",
    "Statecore, guards with queries": "pending",
    "raw batch": "running",
    "Statecore batch": "running",
    "ORM loop": "number",
    "memory": "running",
}
SINGLE = (
    "raw",
    "Statecore",
    "django-fsm-log",
    "ORM",
    "raw uet_worker",
    "Statecore uet_worker",
    "Statecore, guards with queries",
)
ON_SQLITE = ("raw", "Statecore", "django-fsm-log", "ORM")
BATCH = ("raw batch", "Statecore batch", "ORM loop")


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    transitions: int  # per client and round
    clients: int = 8
    warm_up: int = 3

    @property
    def total(self) -> int:
        return (self.rounds + self.warm_up) * self.transitions * self.clients


@dataclass(slots=True)
class Rows:
    """Hands out row ids, each once and `apart` from the next. Workers alternate between two states and are reused."""

    plan: Plan
    apart: int = 1
    taken: dict[str, int] = field(default_factory=dict)

    def shares(self, contender: str) -> list[list[Any]]:
        return [self._share(contender, ROWS[contender], client) for client in range(self.plan.clients)]

    def _share(self, contender: str, kind: str, client: int) -> list[Any]:
        count = self.plan.transitions
        if kind == "uet":
            return [f"uet_{client * count + n:09d}" for n in range(1, count + 1)]
        # The two peers share a table; the second uses the rows after those of the first.
        start = self.taken.get(contender, self.plan.total if contender == "ORM" else 0)
        self.taken[contender] = start + count
        numbers = [n * self.apart + 1 for n in range(start, start + count)]
        return numbers if kind == "number" else [f"{kind}_{n:09d}" for n in numbers]


@dataclass(frozen=True, slots=True)
class Result:
    """Transitions per second of each contender, per round."""

    rates: Mapping[str, list[float]]

    def rate(self, contender: str) -> float:
        return median(self.rates[contender])

    def ratio(self, contender: str, reference: str) -> float:
        return ratio(self.rates[contender], self.rates[reference])


def measure(home: Path, url: str, plan: Plan, contenders: Sequence[str]) -> Result:
    statecore, peers = environ(home, url, "settings"), environ(home, url, "peer_settings")
    run_in_process(peers, seed.prepare, 2 * plan.total, plan.total, plan.transitions * plan.clients)
    with ExitStack() as stack:
        groups = [stack.enter_context(Clients(plan.clients, each)) for each in (statecore, peers)]
        return take_turns({name: groups[name in PEERS] for name in contenders}, Rows(plan))


def take_turns(contenders: Mapping[str, Clients], rows: Rows) -> Result:
    """Runs every contender once per round, in the given order, on its client processes."""
    plan, rates = rows.plan, {name: list[float]() for name in contenders}
    for number in range(plan.warm_up + plan.rounds):
        for name, clients in contenders.items():
            seconds, _answers = clients.run(name, rows.shares(name))
            if number >= plan.warm_up:
                rates[name].append(plan.transitions * plan.clients / seconds)
    return Result(rates)
