"""Agents that claim and finish tasks through the same calls as real ones."""

from __future__ import annotations

from typing import Any

from statecore import scheduling, transitions
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.records import Phase
from statecore.transitions.unit_of_work import UnitOfWork

PHASE = "PH-work"


def plan(*workstreams: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "r", "phase": PHASE, "workstreams": list(workstreams), "start": True, **more}


def workstream(name: str, *tasks: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = [task if isinstance(task, dict) else {"id": task} for task in tasks]
    return {"id": name, "tasks": listed, **more}


def task(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "depends_on": list(after), **more}


def gate(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "gate_type": "UNIT", "command": "true", **more}


def run_gate(name: str, exit_code: int = 0) -> None:
    """Start the gate and end it with this exit code."""
    transitions.transition(TestGate, name, "gate_started", actor=THE_SYSTEM)
    trigger = "gate_failed" if exit_code else "gate_passed"
    transitions.transition(TestGate, name, trigger, actor=THE_SYSTEM, params={"exit_code": exit_code})


def submit(*workstreams: dict[str, Any], **more: Any) -> Run:
    Phase.objects.get_or_create(id=PHASE)
    outcome = scheduling.submit_plan(plan(*workstreams, **more), actor=THE_SYSTEM)
    return Run.objects.get(pk=outcome.entity.pk)


class Agent:
    def __init__(self, name: str = "w", **fields: Any) -> None:
        self.name, self.actor = name, Actor.agent(name)
        transitions.create(Worker, id=name, actor=self.actor, **fields)
        transitions.transition(Worker, name, "registration_completed", actor=self.actor)

    @classmethod
    def registered(cls, name: str) -> Agent:
        """Return an agent that is already registered, for use in another process."""
        agent = cls.__new__(cls)
        agent.name, agent.actor = name, Actor.agent(name)
        return agent

    def claim(self, most: int | None = None) -> list[Task]:
        return scheduling.claim(self.name, actor=self.actor, most=most)

    def finish(self, task: Task, exit_code: int = 0, within: UnitOfWork | None = None) -> Any:
        given = {"params": {"attempt": task.attempt, "exit_code": exit_code}, "within": within}
        return transitions.transition(Task, task.pk, "execution_completed", actor=self.actor, **given)

    def exchange(self, *done: Task, most: int | None = None) -> scheduling.Exchanged:
        """Report these tasks as completed and claim the next."""
        reports = [
            scheduling.Report(task.pk, "execution_completed", {"attempt": task.attempt, "exit_code": 0})
            for task in done
        ]
        return scheduling.report_and_claim(self.name, reports, actor=self.actor, most=most)

    def fail(self, task: Task, error: str = "it broke") -> Any:
        report = {"attempt": task.attempt, "error": error}
        return transitions.transition(Task, task.pk, "execution_failed", actor=self.actor, params=report)

    def work(self) -> list[str]:
        """Claim and finish tasks until none is left; return their ids in order."""
        done = []
        while held := self.claim():
            for each in held:
                self.finish(each)
                done.append(each.pk)
        return done

    @property
    def row(self) -> Worker:
        return Worker.objects.get(pk=self.name)


def states(model: Any) -> dict[str, str]:
    return dict(model.objects.values_list("pk", "state"))
