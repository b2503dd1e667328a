"""Plans out of a seed: small runs with everything in them that a plan may hold."""

from __future__ import annotations

from random import Random
from typing import Any

from ..machines.test_gate import Type
from .names import CAPABILITY

SKILLS = ("git", "python", "docs")
VERBS = ("refactor", "document", "migrate", "port", "test", "profile", "review", "split")
NOUNS = ("parser", "scheduler", "cache", "importer", "login", "report", "queue", "index")
GATE_TIMEOUT = 60

Member = dict[str, Any]


class Planner:
    """The same seed gives the same plans in the same order; only the label of their ids may differ."""

    def __init__(self, rng: Random, label: str, phase: str, timeout_sec: int) -> None:
        self.rng, self.label, self.phase, self.timeout_sec = rng, label, phase, timeout_sec
        self.made = 0

    def next_plan(self) -> Member:
        self.made += 1
        run_id = f"{self.label}-r{self.made}"
        workstreams: list[Member] = []
        for number in range(1, self.rng.randint(1, 3) + 1):
            workstreams.append(self._workstream(f"{run_id}-w{number}", [each["id"] for each in workstreams]))
        return {
            "id": run_id,
            "phase": self.phase,
            "metadata": {"title": self._title()},
            "workstreams": workstreams,
            "start": self._chance(0.8),
        }

    def _workstream(self, workstream_id: str, earlier: list[str]) -> Member:
        gates: list[Member] = []
        for number in range(1, self.rng.choice((0, 1, 1, 2)) + 1):
            gates.append(self._gate(f"{workstream_id}-g{number}", [each["id"] for each in gates]))
        tasks: list[Member] = []
        open_gates = [each["id"] for each in gates]
        for number in range(1, self.rng.randint(2, 6) + 1):
            tasks.append(self._task(f"{workstream_id}-t{number}", [each["id"] for each in tasks], open_gates))
            open_gates = _still_open(open_gates, tasks[-1])
        return {
            "id": workstream_id,
            "is_critical": self._chance(0.2),
            "depends_on": self._some(earlier, 0.4),
            "metadata": {"title": self._title()},
            "gates": gates,
            "tasks": tasks,
        }

    def _gate(self, gate_id: str, earlier: list[str]) -> Member:
        kind = self.rng.choice(Type.values)
        return {
            "id": gate_id,
            "gate_type": kind,
            "command": f"simulated {kind.lower()}",
            "timeout_sec": GATE_TIMEOUT,
            "depends_on": self._some(earlier, 0.5),
        }

    def _task(self, task_id: str, earlier: list[str], gates: list[str]) -> Member:
        link = "entry_gates" if self._chance(0.2) else "gates"
        return {
            "id": task_id,
            "depends_on": self._some(earlier[-3:], 0.35),
            link: self._some(gates, 0.25),
            "is_critical": self._chance(0.1),
            "priority": self.rng.randint(0, 5),
            "required_capabilities": [CAPABILITY, *self._some(SKILLS[:1], 0.2)],
            "timeout_sec": self.timeout_sec,
            "max_retries": self.rng.randint(1, 3),
            "payload": {"title": self._title(), "patch": self._chance(0.2)},
        }

    def _title(self) -> str:
        return f"{self.rng.choice(VERBS)} the {self.rng.choice(NOUNS)}"

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _some(self, among: Any, share: float) -> list[Any]:
        return [each for each in among if self._chance(share)]


def _still_open(gates: list[str], task: Member) -> list[str]:
    """What later tasks may take: none before a gate of this one, nor one that lets it in, for they may wait for it."""
    if entries := task.get("entry_gates"):
        return gates[gates.index(entries[-1]) + 1 :]
    exits = task.get("gates")
    return gates[gates.index(exits[-1]) :] if exits else gates
