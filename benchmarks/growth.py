"""Compares the cost of a transition in a small and a large database, in alternating rounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import seed
from benchmarks.rounds import Plan, Rows
from benchmarks.support import Clients, environ, ratio, run_in_process

SMALL = 10_000
MEMORY_TRANSITIONS = 110


@dataclass(frozen=True, slots=True)
class Growth:
    """Rates per round, and bytes of memory, for the small and the large database."""

    rows: tuple[int, int]
    rates: dict[str, tuple[list[float], list[float]]]
    memory: tuple[dict[str, int], dict[str, int]]

    def time_ratio(self, contender: str) -> float:
        """Returns the time per transition in the large database divided by that in the small one."""
        small, large = self.rates[contender]
        return ratio(small, large)

    def memory_ratio(self, where: str) -> float:
        return self.memory[1][where] / self.memory[0][where]


def measure(base: Path, database: Callable[[str], str], plan: Plan, large: int) -> Growth:
    sizes = (SMALL, large)
    with ExitStack() as stack:
        groups = []
        for size in sizes:
            settings = environ(base / "home", database(f"rows_{size}"), "settings")
            run_in_process(settings, seed.prepare, size, 1, 1)
            groups.append(stack.enter_context(Clients(plan.clients, settings)))
        rows = [Rows(plan, apart=size // (plan.total + MEMORY_TRANSITIONS)) for size in sizes]
        rates = {name: _take_turns(name, groups, rows) for name in ("raw", "Statecore")}
        return Growth(sizes, rates, _memory(groups, rows))


def _take_turns(name: str, groups: list[Clients], rows: list[Rows]) -> tuple[list[float], list[float]]:
    plan = rows[0].plan
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(plan.warm_up + plan.rounds):
        for index, clients in enumerate(groups):
            seconds, _answers = clients.run(name, rows[index].shares(name))
            if number >= plan.warm_up:
                rates[index].append(plan.transitions * plan.clients / seconds)
    return rates


def _memory(groups: list[Clients], rows: list[Rows]) -> tuple[dict[str, int], dict[str, int]]:
    small, large = (
        clients.run("memory", [[f"running_{n * each.apart + 1:09d}" for n in _last(each.plan)]])[1][0]
        for clients, each in zip(groups, rows, strict=True)
    )
    return small, large


def _last(plan: Plan) -> range:
    return range(plan.total, plan.total + MEMORY_TRANSITIONS)
