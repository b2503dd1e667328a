"""The supply of work: a new plan whenever the agents run short of tasks, and an eye on how the runs end."""

from __future__ import annotations

from .. import scheduling
from ..kernel.actors import Actor
from ..machines import run, task
from ..machines.run import Run
from ..machines.task import Task
from .desk import Desk
from .names import simulated
from .plans import Planner

ROUND = 0.2  # seconds between looking around
MOVES_OF_A_RUN = 8  # in a second


class Supply:
    def __init__(self, desk: Desk, *, agents: int, rate: float, runs: int | None, timeout_sec: int) -> None:
        self.desk, self.agents, self.runs = desk, agents, runs
        # Few at a time where the pace is slow, so that they end while somebody looks.
        self.at_once = max(3, min(2 * agents, int(rate / MOVES_OF_A_RUN)))
        self.actor = Actor.agent(f"{desk.names.label}-planner")
        names = desk.names
        self.planner = Planner(names.random("plans"), names.label, names.phase, timeout_sec)

    def live(self) -> None:
        while not self.desk.closed:
            self.watch()
            if self._is_used_up():
                if not self.desk.runs:
                    self.desk.stop.set()
            elif self._is_short():
                self._submit()
                continue
            self.desk.stop.wait(ROUND)

    def _is_used_up(self) -> bool:
        return self.runs is not None and self.planner.made >= self.runs

    def _is_short(self) -> bool:
        if len(self.desk.runs) >= self.at_once:
            return False
        return simulated(Task).filter(state=task.State.QUEUED).count() < self.agents

    def _submit(self) -> None:
        plan = self.planner.next_plan()
        if self.desk.ask(scheduling.submit, plan, actor=self.actor) is None:
            return
        self.desk.runs.add(plan["id"])
        self.desk.tally.planned()
        if not plan["start"]:
            self.desk.move(Run, plan["id"], "run_started", self.actor)

    def watch(self) -> None:
        """Which runs have ended since."""
        ended = Run.objects.filter(pk__in=list(self.desk.runs), state__in=run.FINAL)
        for run_id, state in ended.values_list("pk", "state"):
            self.desk.runs.discard(run_id)
            self.desk.tally.ended(state)
