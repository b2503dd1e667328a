"""The other machines, moving at a modest rate: one short life after another of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from .. import agent_events
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..machines.agent_job import AgentJob
from ..machines.ingestion_job import IngestionJob
from ..machines.pipeline_job import PipelineJob
from ..machines.supervised_job import SupervisedJob
from ..machines.supervised_worker import SupervisedWorker
from ..machines.uet_worker import UetWorker
from ..records import checkpoint
from .desk import Desk
from .tools import use_a_tool

Steps = Iterator[None]


class Neighbour:
    """One entity on its way: moves it, and knows when something goes wrong."""

    def __init__(self, desk: Desk, rng: Random, name: str) -> None:
        self.desk, self.rng, self.name = desk, rng, name
        self.actor = Actor.agent(f"{desk.names.label}-neighbour")

    def create(self, model: type[Entity], **fields: Any) -> None:
        self.model = model
        self.desk.create(model, self.name, self.actor, **fields)

    def move(self, trigger: str, *, actor: Actor | None = None, **params: Any) -> Any:
        return self.desk.move(self.model, self.name, trigger, actor or self.actor, **params)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    @property
    def fails(self) -> bool:
        return self.chance(min(1.0, 2 * self.desk.failures))


def ingestion_job(one: Neighbour) -> Steps:
    one.create(IngestionJob, source=f"feed-{one.rng.randint(1, 9)}", max_attempts=2)
    for attempt in (1, 2):
        yield
        one.move("start")
        yield
        if not one.fails:
            one.move("succeed", attempt=attempt)
            return
        one.move("fail", error="the source did not answer", attempt=attempt)
        yield
        if attempt == 1:
            one.move("retry", delay_seconds=0, attempt=attempt)
    one.move("quarantine", attempt=2)


def agent_job(one: Neighbour) -> Steps:
    one.create(AgentJob, agent="simulated", goal="answer a question")
    yield
    one.move("job_leased")
    yield
    one.desk.ask(agent_events.append, one.name, "tool_called", actor=one.actor, payload={"tool": "search"})
    if one.chance(0.4):
        one.move("job_waiting", signal="an answer", attempt=1)
        yield
        if one.chance(0.3):
            one.move("job_parked", actor=THE_SYSTEM)
            yield
        one.move("wait_completed")
        yield
        one.move("job_leased")
    yield
    attempt = AgentJob.objects.get(pk=one.name).attempt
    if one.fails:
        one.move("job_failed", error="no answer was found", attempt=attempt)
    else:
        one.move("job_completed", result={"answer": 42}, attempt=attempt)


def supervised_job(one: Neighbour) -> Steps:
    one.create(SupervisedJob, task_description="summarise the findings", worker_count=1)
    yield
    if one.chance(0.1):
        one.move("validation_error", actor=THE_SYSTEM, error="it asks for what is not there")
        return
    one.move("validate")
    yield
    one.move("allocate_resources", workers=[f"{one.name}-w"])
    yield
    if one.fails:
        one.move("error", error="its worker gave up", attempt=1)
    else:
        one.move("success", result={"findings": 3}, attempt=1)


def supervised_worker(one: Neighbour) -> Steps:
    one.create(SupervisedWorker, workspace_id="simulation", capacity=2)
    yield
    one.move("start_task")
    yield
    if one.chance(0.4):
        one.move("pause", actor=THE_SYSTEM)
        yield
        one.move("resume", actor=THE_SYSTEM)
        yield
    if one.fails:
        one.move("error_unrecoverable", error="out of memory")
    elif one.chance(0.1):
        one.move("terminate", actor=THE_SYSTEM)
    else:
        one.move("complete_tasks")


def uet_worker(one: Neighbour) -> Steps:
    one.create(UetWorker, worker_type="executor")
    yield
    if one.chance(0.05):
        one.move("spawn_failed", error="no room")
        return
    one.move("initialization_completed")
    for _task in range(one.rng.randint(1, 4)):
        yield from _heard_from(one)
        one.move("task_assigned")
        yield from _heard_from(one)
        if one.fails and one.chance(0.5):
            one.move("worker_crashed", error="it ended with signal 11")
            return
        one.move("task_completed")
    yield from _heard_from(one)
    if one.chance(0.5):
        one.move("task_assigned")
        yield
        one.move("shutdown_requested")
        yield
        one.move("current_task_finished")
    else:
        one.move("shutdown_requested")


def _heard_from(one: Neighbour) -> Steps:
    UetWorker.objects.filter(pk=one.name).update(last_heartbeat=now())
    yield


def pipeline_job(one: Neighbour) -> Steps:
    one.create(PipelineJob, profile="nightly", command="import")
    for stage in ("analyze", "map", "materialize", "validate"):
        yield
        one.move(stage, detail=f"{stage} begins")
        if one.chance(0.7):
            one.desk.ask(checkpoint.store, one.name, stage, {"rows": one.rng.randint(1, 10_000)})
        if one.fails and one.chance(0.3):
            yield
            one.move("fail", error=f"{stage} found a hole in the data")
            return
    yield
    one.move("finish", detail="all rows are there")


KINDS: tuple[Callable[[Neighbour], Steps], ...] = (
    ingestion_job,
    agent_job,
    supervised_job,
    supervised_worker,
    uet_worker,
    pipeline_job,
)


class Neighbourhood:
    """One thread that lets so many of them live at once, one step here and one step there."""

    def __init__(self, desk: Desk, size: int) -> None:
        self.desk, self.size, self.born = desk, size, 0
        self.rng = desk.names.random("neighbours")
        self.lives: list[Steps] = []

    def live(self) -> None:
        while not self.desk.closed:
            while len(self.lives) < self.size:
                self.lives.append(self._newborn())
            self._step(self.rng.choice(self.lives))
        for each in list(self.lives):  # each to its end: nothing is left half-way
            while each in self.lives:
                self._step(each)

    def _newborn(self) -> Steps:
        self.born += 1
        kind = (*KINDS, use_a_tool)[self.born % (len(KINDS) + 1)]
        return kind(Neighbour(self.desk, self.rng, f"{self.desk.names.label}-n{self.born}"))

    def _step(self, life: Steps) -> None:
        if next(life, self) is self:
            self.lives.remove(life)
