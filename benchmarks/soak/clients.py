"""Clients of the soak test: a planner, agents that fail, hang or vanish, a list reader and a stream reader."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, TypeVar

from statecore_client import Client, Refused, RetryPolicy, Task

T = TypeVar("T")

PHASE = "soak"
TASKS, CHAIN = 20, 4  # tasks per plan, in chains of dependent tasks
LEASE = 3  # seconds
# High enough that no task runs out of retries: every run must succeed.
RETRIES = 30
BEAT_EVERY = 10.0
OUTCOMES = {"done": 87, "failed": 10, "hung": 2, "vanished": 1}
# Clients retry until the server is back.
UNLIMITED = RetryPolicy(first=0.1, longest=2.0, total=None)


@dataclass
class Tally:
    """What all threads did, and how long their calls took, including retries and outages."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    outcomes: Counter[str] = field(default_factory=Counter)
    late: int = 0
    confirmed: list[str] = field(default_factory=list)  # tasks with a confirmed completion
    received: list[int] = field(default_factory=list)  # positions in order of arrival

    def timed(self, name: str, call: Callable[..., T], *args: Any, **given: Any) -> T:
        began = monotonic()
        try:
            return call(*args, **given)
        finally:
            self.seconds[name].append(monotonic() - began)

    def await_received(self, position: int, patience: float) -> None:
        """Waits until the stream reader has reached the position, or the time is up."""
        until = monotonic() + patience
        while (self.received[-1] if self.received else 0) < position and monotonic() < until:
            sleep(0.2)


class Clients:
    """All clients, each in a thread with its own connection through nginx."""

    def __init__(self, connect: Callable[[], Client], *, plans: int, tasks_per_second: float, agents: int) -> None:
        self.connect, self.plans, self.agents = connect, plans, agents
        self.interval = TASKS / tasks_per_second
        self.tally, self.stopped = Tally(), threading.Event()
        self.submitted = 0
        self.failed: list[BaseException] = []

    @contextmanager
    def working(self) -> Iterator[None]:
        with self.client() as statecore:
            statecore.create("phases", id=PHASE)
        loops = [self._plan, self._read, self._stream, *[Agent(self, number).work for number in range(self.agents)]]
        threads = [threading.Thread(target=self._run, args=(loop,), daemon=True) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join(60)
        if self.failed:
            raise self.failed[0]

    def await_plans(self) -> None:
        """Waits until all plans were submitted or a client failed."""
        while self.submitted < self.plans and not self.stopped.wait(0.2):
            pass

    def client(self) -> Client:
        statecore = self.connect()
        statecore.retry_policy = UNLIMITED
        return statecore

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except Exception as error:  # noqa: BLE001 - raised again in working()
            self.failed.append(error)
            self.stopped.set()

    def _plan(self) -> None:
        """Submits plans at the pace; plans delayed by an outage are caught up with."""
        began = monotonic()
        with self.client() as statecore:
            for number in range(self.plans):
                if self.stopped.wait(max(0.0, began + number * self.interval - monotonic())):
                    return
                self.tally.timed("submit", statecore.submit_plan, plan(number))
                self.submitted += 1

    def _read(self) -> None:
        with self.client() as statecore:
            while not self.stopped.wait(0.5):
                self.tally.timed("list", lambda: list(statecore.list("tasks", state="running")))

    def _stream(self) -> None:
        with self.client() as statecore, closing(statecore.stream_events(after=0)) as events:
            for event in events:
                self.tally.received.append(event.position)
                if self.stopped.is_set():
                    return


def plan(number: int) -> dict[str, Any]:
    name = f"soak-{number}"
    tasks = [
        {"id": f"{name}-{n}", "timeout_sec": LEASE, "max_retries": RETRIES}
        | ({"depends_on": [f"{name}-{n - 1}"]} if n % CHAIN else {})
        for n in range(TASKS)
    ]
    return {"id": name, "phase": PHASE, "workstreams": [{"id": f"{name}-w", "tasks": tasks}], "start": True}


class Agent:
    """An agent. Odd ones report and claim in one call, even ones in two."""

    def __init__(self, clients: Clients, number: int) -> None:
        self.clients, self.tally, self.number = clients, clients.tally, number
        self.random = random.Random(number)  # noqa: S311 - not for secrets
        self.exchanges = bool(number % 2)
        self.beaten_at = 0.0

    def work(self) -> None:
        registrations = 0
        with self.clients.client() as self.statecore:
            while not self.clients.stopped.is_set():
                registrations += 1
                try:
                    self._work_until_vanished(f"agent{self.number}.{registrations}")
                except Refused as refusal:  # for example because its worker was given up
                    self.tally.outcomes[f"refused: {refusal.code}"] += 1

    def _work_until_vanished(self, name: str) -> None:
        self.worker = self.tally.timed("register", self.statecore.register_worker, ["python"], worker_id=name).id
        held: list[Task] = []
        while not self.clients.stopped.is_set():
            self._beat()
            held = held or self.tally.timed("claim", self.statecore.claim_tasks, self.worker, wait=2)
            if held:
                outcome = self.random.choices(list(OUTCOMES), list(OUTCOMES.values()))[0]
                self.tally.outcomes[outcome] += 1
                if outcome == "vanished":
                    return
                held = self._report_outcome(held[0], outcome)

    def _beat(self) -> None:
        if monotonic() - self.beaten_at >= BEAT_EVERY:
            self.tally.timed("heartbeat", self.statecore.send_heartbeat, self.worker)
            self.beaten_at = monotonic()

    def _report_outcome(self, task: Task, outcome: str) -> list[Task]:
        """Reports the outcome. Returns the next tasks if they were claimed in the same call."""
        if outcome == "hung":
            self.clients.stopped.wait(LEASE + 1)
        if outcome == "done":
            report = {"trigger": "execution_completed", "exit_code": 0}
        else:
            report = {"trigger": "execution_failed", "error": outcome}
        return self._exchange(task, report) if self.exchanges else self._report(task, report)

    def _exchange(self, task: Task, report: dict[str, Any]) -> list[Task]:
        full = {"task": task.id, "attempt": task.attempt, **report}
        answer = self.tally.timed("report and claim", self.statecore.report_and_claim, self.worker, [full])
        self._record(task, report, accepted=not answer.reports[0].get("refusal"))
        return answer.tasks

    def _report(self, task: Task, report: dict[str, Any]) -> list[Task]:
        given = {name: value for name, value in report.items() if name != "trigger"}
        done = report["trigger"] == "execution_completed"
        call = self.statecore.complete_task if done else self.statecore.fail_task
        try:
            self.tally.timed("report", call, task.id, attempt=task.attempt or 0, **given)
        except Refused:
            self._record(task, report, accepted=False)
        else:
            self._record(task, report, accepted=True)
        return []

    def _record(self, task: Task, report: dict[str, Any], *, accepted: bool) -> None:
        if not accepted:
            self.tally.late += 1
        elif report["trigger"] == "execution_completed":
            self.tally.confirmed.append(task.id)
