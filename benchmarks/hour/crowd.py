"""Who works for an hour: a planner, agents that fail, hang and vanish, a reader, and one who listens to everything."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, TypeVar

from api.client import Client, Patience, Refused, Task

T = TypeVar("T")

PHASE = "hour"
TASKS, CHAIN = 20, 4  # of a plan; each task of a chain waits for the one before it
LEASE = 3  # seconds
# More than chance can use up: in the end every run has to succeed.
RETRIES = 30
BEAT_EVERY = 10.0
FATES = {"done": 87, "failed": 10, "hung": 2, "vanished": 1}
# Whoever meets a server that is down comes back until it is there.
UNTIRING = Patience(first=0.1, longest=2.0, total=None)


@dataclass
class Tally:
    """What all threads have done, and how long their calls took, repeats and outages included."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    fates: Counter[str] = field(default_factory=Counter)
    late: int = 0
    confirmed: list[str] = field(default_factory=list)  # tasks whose success was answered
    heard: list[int] = field(default_factory=list)  # positions, as they came

    def timed(self, name: str, call: Callable[..., T], *args: Any, **given: Any) -> T:
        began = monotonic()
        try:
            return call(*args, **given)
        finally:
            self.seconds[name].append(monotonic() - began)

    def await_heard(self, position: int, patience: float) -> None:
        """Until the listener has come so far, or is given up."""
        until = monotonic() + patience
        while (self.heard[-1] if self.heard else 0) < position and monotonic() < until:
            sleep(0.2)


class Crowd:
    """Everybody at once; each with a connection of their own, through nginx."""

    def __init__(self, connect: Callable[[], Client], *, plans: int, tasks_a_second: float, agents: int) -> None:
        self.connect, self.plans, self.agents = connect, plans, agents
        self.interval = TASKS / tasks_a_second
        self.tally, self.over = Tally(), threading.Event()
        self.submitted = 0
        self.failed: list[BaseException] = []

    @contextmanager
    def working(self) -> Iterator[None]:
        with self.client() as statecore:
            statecore.create("phases", id=PHASE)
        everybody = [self._plan, self._read, self._listen, *[Agent(self, number).live for number in range(self.agents)]]
        threads = [threading.Thread(target=self._live, args=(each,), daemon=True) for each in everybody]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join(60)
        if self.failed:
            raise self.failed[0]

    def await_plans(self) -> None:
        """Until all were submitted, or somebody fell over."""
        while self.submitted < self.plans and not self.over.wait(0.2):
            pass

    def client(self) -> Client:
        statecore = self.connect()
        statecore.patience = UNTIRING
        return statecore

    def _live(self, deed: Callable[[], None]) -> None:
        try:
            deed()
        except Exception as error:  # noqa: BLE001 - raised again by whoever started them
            self.failed.append(error)
            self.over.set()

    def _plan(self) -> None:
        """At the pace, whatever happens: what an outage has put off is made up for."""
        began = monotonic()
        with self.client() as statecore:
            for number in range(self.plans):
                if self.over.wait(max(0.0, began + number * self.interval - monotonic())):
                    return
                self.tally.timed("submit", statecore.submit, plan(number))
                self.submitted += 1

    def _read(self) -> None:
        with self.client() as statecore:
            while not self.over.wait(0.5):
                self.tally.timed("list", lambda: list(statecore.list("tasks", state="running")))

    def _listen(self) -> None:
        with self.client() as statecore, closing(statecore.stream(after=0)) as events:
            for event in events:
                self.tally.heard.append(event.position)
                if self.over.is_set():
                    return


def plan(number: int) -> dict[str, Any]:
    name = f"hour-{number}"
    tasks = [
        {"id": f"{name}-{n}", "timeout_sec": LEASE, "max_retries": RETRIES}
        | ({"depends_on": [f"{name}-{n - 1}"]} if n % CHAIN else {})
        for n in range(TASKS)
    ]
    return {"id": name, "phase": PHASE, "workstreams": [{"id": f"{name}-w", "tasks": tasks}], "start": True}


class Agent:
    """Every second one reports and claims in one call, the others in two."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.crowd, self.tally, self.number = crowd, crowd.tally, number
        self.chance = random.Random(number)  # noqa: S311 - fates, not secrets
        self.exchanges = bool(number % 2)
        self.beaten_at = 0.0

    def live(self) -> None:
        lives = 0
        with self.crowd.client() as self.statecore:
            while not self.crowd.over.is_set():
                lives += 1
                try:
                    self._spend(f"agent{self.number}.{lives}")
                except Refused as refusal:  # its worker was given up meanwhile, say
                    self.tally.fates[f"refused: {refusal.code}"] += 1

    def _spend(self, name: str) -> None:
        self.worker = self.tally.timed("register", self.statecore.register, ["python"], worker_id=name).id
        held: list[Task] = []
        while not self.crowd.over.is_set():
            self._beat()
            held = held or self.tally.timed("claim", self.statecore.claim, self.worker, wait=2)
            if held:
                fate = self.chance.choices(list(FATES), list(FATES.values()))[0]
                self.tally.fates[fate] += 1
                if fate == "vanished":
                    return
                held = self._end(held[0], fate)

    def _beat(self) -> None:
        if monotonic() - self.beaten_at >= BEAT_EVERY:
            self.tally.timed("heartbeat", self.statecore.heartbeat, self.worker)
            self.beaten_at = monotonic()

    def _end(self, task: Task, fate: str) -> list[Task]:
        """Report what became of it; the next tasks, where that was one call with it."""
        if fate == "hung":
            self.crowd.over.wait(LEASE + 1)
        if fate == "done":
            told = {"trigger": "execution_completed", "exit_code": 0}
        else:
            told = {"trigger": "execution_failed", "error": fate}
        return self._exchange(task, told) if self.exchanges else self._report(task, told)

    def _exchange(self, task: Task, told: dict[str, Any]) -> list[Task]:
        report = {"task": task.id, "attempt": task.attempt, **told}
        answer = self.tally.timed("report and claim", self.statecore.report_and_claim, self.worker, [report])
        self._note(task, told, taken=not answer.reports[0].get("refusal"))
        return answer.tasks

    def _report(self, task: Task, told: dict[str, Any]) -> list[Task]:
        given = {name: value for name, value in told.items() if name != "trigger"}
        done = told["trigger"] == "execution_completed"
        call = self.statecore.complete if done else self.statecore.fail
        try:
            self.tally.timed("report", call, task.id, attempt=task.attempt or 0, **given)
        except Refused:
            self._note(task, told, taken=False)
        else:
            self._note(task, told, taken=True)
        return []

    def _note(self, task: Task, told: dict[str, Any], *, taken: bool) -> None:
        if not taken:
            self.tally.late += 1
        elif told["trigger"] == "execution_completed":
            self.tally.confirmed.append(task.id)
