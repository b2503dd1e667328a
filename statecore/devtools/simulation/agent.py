"""Simulated agents, which register workers, claim and report tasks, and sometimes fail, hang or are killed."""

from __future__ import annotations

from enum import StrEnum
from time import monotonic
from typing import Any

from ... import scheduling
from ...kernel.actors import Actor
from ...machines.patch_ledger import PatchLedger
from ...machines.task import Task
from ...machines.worker import FINAL, Worker
from ...records import Patch
from .context import Context
from .gates_and_patches import GatesAndPatches
from .names import CAPABILITY, PHASE, RealWorkFound
from .plans import SKILLS

HEARTBEAT_INTERVAL = 5.0  # seconds; workers are missed after two minutes
IDLE_PAUSE = (0.1, 0.4)  # seconds without work
GATE_OR_PATCH_FIRST = 0.3  # share of turns
DRAINED = 0.01  # share of claims
DIFF = "--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-before\n+after\n"


class TaskResult(StrEnum):
    """What happens to a claimed task and its worker."""

    DONE = "done"
    FAILED = "failed"
    HUNG = "hung"
    KILLED = "killed"


# Weights of the kinds of failure.
FAILURES = {TaskResult.FAILED: 6, TaskResult.HUNG: 3, TaskResult.KILLED: 1}


class SimulatedAgent:
    """One thread that registers a new worker whenever the previous one has ended."""

    def __init__(self, context: Context, number: int) -> None:
        self.context, self.number, self.workers = context, number, 0
        self.rng = context.names.random(f"agent {number}")

    def run(self) -> None:
        while not self.context.is_stopped:
            self.workers += 1
            name = f"{self.context.names.label}-a{self.number:02}.{self.workers}"
            SimulatedWorker(self.context, self, name).run()


class SimulatedWorker:
    """A worker from its registration to its shutdown."""

    def __init__(self, context: Context, agent: SimulatedAgent, worker: str) -> None:
        self.context, self.rng, self.worker = context, agent.rng, worker
        self.actor = Actor.agent(worker)
        self.gates_and_patches = GatesAndPatches(context, self.rng, context.failures)
        self.heartbeat_at = monotonic()
        self.has_ended = False

    def run(self) -> None:
        capacity, skills = self.rng.choice((1, 1, 1, 2)), self.rng.sample(SKILLS, self.rng.randint(1, len(SKILLS)))
        fields = {"capabilities": [CAPABILITY, *skills], "max_concurrent_tasks": capacity}
        self.context.create(Worker, self.worker, self.actor, **fields)
        self.context.fire(Worker, self.worker, "registration_completed", self.actor)
        while not (self.has_ended or self.context.is_stopped):
            self._work()
        if not self.has_ended:
            self._shut_down()

    def _work(self) -> None:
        self._send_heartbeat()
        if self.rng.random() < GATE_OR_PATCH_FIRST and self.gates_and_patches.do_one():
            return
        held = self.context.call(scheduling.claim, self.worker, actor=self.actor)
        if held is None:  # shut down, drained or overridden: the next heartbeat returns which
            self.heartbeat_at = 0.0
        for task in held or ():
            self._handle(task)
        if not held and not self.gates_and_patches.do_one():
            self.context.stop.wait(self.rng.uniform(*IDLE_PAUSE))

    def _send_heartbeat(self) -> None:
        if monotonic() - self.heartbeat_at < HEARTBEAT_INTERVAL:
            return
        response = scheduling.record_heartbeat(self.worker, actor=self.actor)
        self.heartbeat_at = monotonic()
        self.has_ended = response["state"] in FINAL

    def _handle(self, task: Task) -> None:
        if self.has_ended:  # killed while working on the previous task
            return
        if not task.phase_id.startswith(PHASE):
            self._report(task, "execution_failed", error="simulated agents do no real work")
            raise RealWorkFound(f"task {task.pk} is real work; the simulated agent that claimed it has handed it back")
        if self.context.is_stopped:
            self._report(task, "execution_failed", error="handed back because the simulation ended")
            return
        if self.rng.random() < DRAINED:
            self.context.call(scheduling.drain_worker, self.worker, actor=self.actor)
            self.context.statistics.count_incident("drained")
            self.heartbeat_at = 0.0
        self._finish(task, self._choose_result())

    def _choose_result(self) -> TaskResult:
        if self.rng.random() >= self.context.failures:
            return TaskResult.DONE
        return self.rng.choices(list(FAILURES), list(FAILURES.values()))[0]

    def _finish(self, task: Task, result: TaskResult) -> None:
        if result is not TaskResult.DONE:
            self.context.statistics.count_incident(result)
        match result:
            case TaskResult.DONE:
                if task.payload.get("patch"):
                    self._write_patch(task)
                self._report(task, "execution_completed", exit_code=0, output="done")
            case TaskResult.FAILED:
                self._report(task, "execution_failed", error="failed", exit_code=1)
            case TaskResult.HUNG:
                # Reports only after the lease has expired, unless the simulation stops first.
                self.context.stop.wait(task.timeout_sec + self.rng.uniform(1.0, 3.0))
                self._report(task, "execution_failed", error="hung")
                self.heartbeat_at = 0.0
            case TaskResult.KILLED:
                # Missed before or after the lease expires, so its tasks are taken away or time out.
                self.context.add_killed_worker(self.worker, self.rng.uniform(0.0, 2.0 * task.timeout_sec))
                self.has_ended = True
                self.context.stop.wait(self.rng.uniform(1.0, 3.0))

    def _report(self, task: Task, trigger: str, **params: Any) -> None:
        self.context.fire(Task, task.pk, trigger, self.actor, attempt=task.attempt, **params)

    def _write_patch(self, task: Task) -> None:
        """Submits a patch for this attempt; the task then waits for its verification."""
        patch_id = f"{task.pk}-p{task.attempt}"
        path = "secrets/keys.txt" if self.rng.random() < self.context.failures / 5 else "src/module.py"
        Patch.objects.create(id=patch_id, title=task.payload["title"], diff=DIFF.format(path=path))
        held = {"task": task.pk, "attempt": task.attempt}
        self.context.call(scheduling.submit_patch, PatchLedger, id=patch_id, actor=self.actor, patch=patch_id, **held)

    def _shut_down(self) -> None:
        """Shuts the worker down. The heartbeat first ends a possible unresponsive state."""
        for _ in range(3):  # the operator may force it to unresponsive again in between
            is_final = scheduling.record_heartbeat(self.worker, actor=self.actor)["state"] in FINAL
            if is_final or self.context.fire(Worker, self.worker, "shutdown_requested", self.actor):
                return
