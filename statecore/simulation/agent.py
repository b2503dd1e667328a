"""An agent: registers a worker, claims, works, reports, and now and then fails, hangs, is killed or leaves."""

from __future__ import annotations

from enum import StrEnum
from time import monotonic
from typing import Any

from .. import scheduling
from ..kernel.actors import Actor
from ..machines.patch_ledger import PatchLedger
from ..machines.task import Task
from ..machines.worker import FINAL, Worker
from ..records import Patch
from .chores import Chores
from .desk import Desk
from .names import CAPABILITY, PHASE, RealWork
from .plans import SKILLS

BEAT_EVERY = 5.0  # seconds; a worker is silent after two minutes
REST = (0.1, 0.4)  # seconds, when there is nothing to do
GOES_FOR_A_CHORE_FIRST = 0.3
IS_DRAINED = 0.01  # of the claims
DIFF = "--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-before\n+after\n"


class Fate(StrEnum):
    """What becomes of an agent and the task it works on."""

    DONE = "done"
    FAILED = "failed"
    HUNG = "hung"
    KILLED = "killed"


# How those attempts that go wrong go wrong.
WRONG = {Fate.FAILED: 6, Fate.HUNG: 3, Fate.KILLED: 1}


class Agent:
    """One thread; its workers are named after it, one for each of its lives."""

    def __init__(self, desk: Desk, number: int) -> None:
        self.desk, self.number, self.lives = desk, number, 0
        self.rng = desk.names.random(f"agent {number}")

    def live(self) -> None:
        while not self.desk.closed:
            self.lives += 1
            Life(self.desk, self, f"{self.desk.names.label}-a{self.number:02}.{self.lives}").spend()


class Life:
    """From a worker's registration to its end."""

    def __init__(self, desk: Desk, agent: Agent, worker: str) -> None:
        self.desk, self.rng, self.worker = desk, agent.rng, worker
        self.actor = Actor.agent(worker)
        self.chores = Chores(desk, self.rng, self.actor, desk.failures)
        self.beaten_at = monotonic()
        self.is_over = False

    def spend(self) -> None:
        room, skills = self.rng.choice((1, 1, 1, 2)), self.rng.sample(SKILLS, self.rng.randint(1, len(SKILLS)))
        fields = {"capabilities": [CAPABILITY, *skills], "max_concurrent_tasks": room}
        self.desk.create(Worker, self.worker, self.actor, **fields)
        self.desk.move(Worker, self.worker, "registration_completed", self.actor)
        while not (self.is_over or self.desk.closed):
            self._turn()
        if not self.is_over:
            self._shut_down()

    def _turn(self) -> None:
        self._beat()
        if self.rng.random() < GOES_FOR_A_CHORE_FIRST and self.chores.do_one():
            return
        held = self.desk.ask(scheduling.claim, self.worker, actor=self.actor)
        if held is None:  # it was shut down, drained or forced: the next heartbeat says which
            self.beaten_at = 0.0
        for task in held or ():
            self._hold(task)
        if not held and not self.chores.do_one():
            self.desk.stop.wait(self.rng.uniform(*REST))

    def _beat(self) -> None:
        if monotonic() - self.beaten_at < BEAT_EVERY:
            return
        heard = scheduling.beat(self.worker, actor=self.actor)
        self.beaten_at = monotonic()
        self.is_over = heard["state"] in FINAL

    def _hold(self, task: Task) -> None:
        if self.is_over:  # killed with the task before this one
            return
        if not task.phase_id.startswith(PHASE):
            self._report(task, "execution_failed", error="a simulated agent does no real work")
            raise RealWork(f"task {task.pk} is real work: a simulated agent was given it and has handed it back")
        if self.desk.closed:
            self._report(task, "execution_failed", error="handed back: the simulation ends")
            return
        if self.rng.random() < IS_DRAINED:
            self.desk.ask(scheduling.drain, self.worker, actor=self.actor)
            self.desk.tally.happens("drained")
            self.beaten_at = 0.0
        self._meet(self._fate(), task)

    def _fate(self) -> Fate:
        if self.rng.random() >= self.desk.failures:
            return Fate.DONE
        return self.rng.choices(list(WRONG), list(WRONG.values()))[0]

    def _meet(self, fate: Fate, task: Task) -> None:
        if fate is not Fate.DONE:
            self.desk.tally.happens(fate)
        match fate:
            case Fate.DONE:
                if task.payload.get("patch"):
                    self._write_patch(task)
                self._report(task, "execution_completed", exit_code=0, output="done")
            case Fate.FAILED:
                self._report(task, "execution_failed", error="it broke", exit_code=1)
            case Fate.HUNG:
                # Not a word until the lease is over; what it says then is late, unless the end came first.
                self.desk.stop.wait(task.timeout_sec + self.rng.uniform(1.0, 3.0))
                self._report(task, "execution_failed", error="it hung")
                self.beaten_at = 0.0
            case Fate.KILLED:
                # Missed before or after the lease is over: its tasks are lost with it, or time out.
                self.desk.vanishes(self.worker, self.rng.uniform(0.0, 2.0 * task.timeout_sec))
                self.is_over = True
                self.desk.stop.wait(self.rng.uniform(1.0, 3.0))

    def _report(self, task: Task, trigger: str, **told: Any) -> None:
        self.desk.move(Task, task.pk, trigger, self.actor, attempt=task.attempt, **told)

    def _write_patch(self, task: Task) -> None:
        """A patch of this attempt, in the ledger, and the task that waits until it is verified."""
        patch_id = f"{task.pk}-p{task.attempt}"
        path = "secrets/keys.txt" if self.rng.random() < self.desk.failures / 5 else "src/module.py"
        Patch.objects.create(id=patch_id, title=task.payload["title"], diff=DIFF.format(path=path))
        held = {"task": task.pk, "attempt": task.attempt}
        self.desk.ask(scheduling.hand_in, PatchLedger, id=patch_id, actor=self.actor, patch=patch_id, **held)

    def _shut_down(self) -> None:
        """Whatever it held is reported or handed back by now. One that is held for silent says first that it lives."""
        for _ in range(3):  # the operator may doubt it once more in between
            is_shut = scheduling.beat(self.worker, actor=self.actor)["state"] in FINAL
            if is_shut or self.desk.move(Worker, self.worker, "shutdown_requested", self.actor):
                return
