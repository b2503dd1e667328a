"""Contenders taking turns in short rounds, each turn the same number of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import seed
from benchmarks.contenders import PEERS
from benchmarks.support import Clients, environ, once, ratio

# Which rows a contender moves.
ROWS = {
    "raw": "running",
    "door": "running",
    "django-fsm-log": "number",
    "ORM": "number",
    "raw uet_worker": "uet",
    "door uet_worker": "uet",
    "door, guards with queries": "pending",
    "raw batch": "running",
    "door batch": "running",
    "ORM loop": "number",
    "memory": "running",
}
SINGLE = ("raw", "door", "django-fsm-log", "ORM", "raw uet_worker", "door uet_worker", "door, guards with queries")
ON_SQLITE = ("raw", "door", "django-fsm-log", "ORM")
BATCH = ("raw batch", "door batch", "ORM loop")


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    moves: int  # of each client in each round
    clients: int = 8
    warm_up: int = 3

    @property
    def total(self) -> int:
        return (self.rounds + self.warm_up) * self.moves * self.clients


@dataclass(slots=True)
class Rows:
    """Hands out rows, each once and `apart` from the next; workers, which go to and fro, again and again."""

    plan: Plan
    apart: int = 1
    taken: dict[str, int] = field(default_factory=dict)

    def shares(self, contender: str) -> list[list[Any]]:
        return [self._share(contender, ROWS[contender], client) for client in range(self.plan.clients)]

    def _share(self, contender: str, kind: str, client: int) -> list[Any]:
        moves = self.plan.moves
        if kind == "uet":
            return [f"uet_{client * moves + n:09d}" for n in range(1, moves + 1)]
        # The two peers share a table: the second starts where the first will end.
        start = self.taken.get(contender, self.plan.total if contender == "ORM" else 0)
        self.taken[contender] = start + moves
        numbers = [n * self.apart + 1 for n in range(start, start + moves)]
        return numbers if kind == "number" else [f"{kind}_{n:09d}" for n in numbers]


@dataclass(frozen=True, slots=True)
class Result:
    """Moves per second of each contender, round by round."""

    rates: Mapping[str, list[float]]

    def rate(self, contender: str) -> float:
        return median(self.rates[contender])

    def ratio(self, contender: str, reference: str) -> float:
        return ratio(self.rates[contender], self.rates[reference])


def measure(home: Path, url: str, plan: Plan, contenders: Sequence[str]) -> Result:
    ours, theirs = environ(home, url, "settings"), environ(home, url, "peer_settings")
    once(theirs, seed.prepare, 2 * plan.total, plan.total, plan.moves * plan.clients)
    with ExitStack() as stack:
        groups = [stack.enter_context(Clients(plan.clients, each)) for each in (ours, theirs)]
        return take_turns({name: groups[name in PEERS] for name in contenders}, Rows(plan))


def take_turns(who: Mapping[str, Clients], rows: Rows) -> Result:
    """Who serves under which name, in the order of their turns."""
    plan, rates = rows.plan, {name: list[float]() for name in who}
    for number in range(plan.warm_up + plan.rounds):
        for name, clients in who.items():
            seconds, _answers = clients.ask(name, rows.shares(name))
            if number >= plan.warm_up:
                rates[name].append(plan.moves * plan.clients / seconds)
    return Result(rates)
