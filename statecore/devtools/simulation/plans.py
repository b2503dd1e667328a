"""Generates plans from a seed and submits them while the agents need work."""

from __future__ import annotations

from random import Random
from typing import Any

from ... import scheduling
from ...kernel.actors import Actor
from ...machines import run, task
from ...machines.run import Run
from ...machines.task import Task
from ...machines.test_gate import Type
from .context import Context
from .names import CAPABILITY, simulated

SKILLS = ("git", "python", "docs")
VERBS = ("refactor", "document", "migrate", "port", "test", "profile", "review", "split")
NOUNS = ("parser", "scheduler", "cache", "importer", "login", "report", "queue", "index")
GATE_TIMEOUT = 60
INTERVAL = 0.2  # seconds between checks
TRANSITIONS_PER_RUN = 8  # per second

Member = dict[str, Any]


class PlanGenerator:
    """Generates small plans that use every feature. The same seed gives the same plans, except for the label in ids."""

    def __init__(self, rng: Random, label: str, phase: str, timeout_sec: int) -> None:
        self.rng, self.label, self.phase, self.timeout_sec = rng, label, phase, timeout_sec
        self.generated = 0

    def next_plan(self) -> Member:
        self.generated += 1
        run_id = f"{self.label}-r{self.generated}"
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
        available = [each["id"] for each in gates]
        for number in range(1, self.rng.randint(2, 6) + 1):
            tasks.append(self._task(f"{workstream_id}-t{number}", [each["id"] for each in tasks], available))
            available = _available_after(available, tasks[-1])
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


def _available_after(gates: list[str], task: Member) -> list[str]:
    """Returns the gates that later tasks can use without waiting in a cycle for this task."""
    if entries := task.get("entry_gates"):
        return gates[gates.index(entries[-1]) + 1 :]
    exits = task.get("gates")
    return gates[gates.index(exits[-1]) :] if exits else gates


class PlanSubmitter:
    """Submits a new plan whenever the agents run short of tasks, and records how runs end."""

    def __init__(self, context: Context, *, agents: int, rate: float, runs: int | None, timeout_sec: int) -> None:
        self.context, self.agents, self.runs = context, agents, runs
        # Few runs at a time for a low rate, so that a viewer sees them end.
        self.max_runs = max(3, min(2 * agents, int(rate / TRANSITIONS_PER_RUN)))
        self.actor = Actor.agent(f"{context.names.label}-planner")
        names = context.names
        self.generator = PlanGenerator(names.random("plans"), names.label, names.phase, timeout_sec)

    def run(self) -> None:
        while not self.context.is_stopped:
            self.record_ended_runs()
            if self._has_submitted_all():
                if not self.context.runs:
                    self.context.stop.set()
            elif self._agents_need_work():
                self._submit()
                continue
            self.context.stop.wait(INTERVAL)

    def _has_submitted_all(self) -> bool:
        return self.runs is not None and self.generator.generated >= self.runs

    def _agents_need_work(self) -> bool:
        if len(self.context.runs) >= self.max_runs:
            return False
        return simulated(Task).filter(state=task.State.QUEUED).count() < self.agents

    def _submit(self) -> None:
        plan = self.generator.next_plan()
        if self.context.call(scheduling.submit_plan, plan, actor=self.actor) is None:
            return
        self.context.runs.add(plan["id"])
        self.context.statistics.record_plan()
        if not plan["start"]:
            self.context.fire(Run, plan["id"], "run_started", self.actor)

    def record_ended_runs(self) -> None:
        ended = Run.objects.filter(pk__in=list(self.context.runs), state__in=run.FINAL)
        for run_id, state in ended.values_list("pk", "state"):
            self.context.runs.discard(run_id)
            self.context.statistics.record_ended_run(state)
