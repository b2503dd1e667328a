"""Short life cycles of entities of the other machines, at a modest rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from time import sleep
from typing import Any

from ...kernel.actors import THE_SYSTEM, Actor
from ...kernel.entity import Entity
from ...machines.agent_job import AgentJob
from ...machines.circuit_breaker import CircuitBreaker, State
from ...machines.ingestion_job import IngestionJob
from ...machines.pipeline_job import PipelineJob
from ...machines.supervised_job import SupervisedJob
from ...machines.supervised_worker import SupervisedWorker
from ...machines.uet_worker import UetWorker
from ...records import checkpoint
from ...scheduling import agent_job_log, breakers, renew
from .context import Context

Steps = Iterator[None]

TOOLS = ("compiler", "model", "registry")
THRESHOLD = 2
COOLDOWN_SECONDS = 1
PAUSE = 0.05


class SimulatedEntity:
    """One entity and the triggers fired on it."""

    def __init__(self, context: Context, rng: Random, name: str) -> None:
        self.context, self.rng, self.name = context, rng, name
        self.actor = Actor.agent(f"{context.names.label}-neighbour")

    def create(self, model: type[Entity], **fields: Any) -> None:
        self.model = model
        self.context.create(model, self.name, self.actor, **fields)

    def fire(self, trigger: str, *, actor: Actor | None = None, **params: Any) -> Any:
        return self.context.fire(self.model, self.name, trigger, actor or self.actor, **params)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    @property
    def fails(self) -> bool:
        return self.chance(min(1.0, 2 * self.context.failures))


def ingestion_job(entity: SimulatedEntity) -> Steps:
    entity.create(IngestionJob, source=f"feed-{entity.rng.randint(1, 9)}", max_attempts=2)
    for attempt in (1, 2):
        yield
        entity.fire("start")
        yield
        if not entity.fails:
            entity.fire("succeed", attempt=attempt)
            return
        entity.fire("fail", error="the source did not respond", attempt=attempt)
        yield
        if attempt == 1:
            entity.fire("retry", delay_seconds=0, attempt=attempt)
    entity.fire("quarantine", attempt=2)


def agent_job(entity: SimulatedEntity) -> Steps:
    entity.create(AgentJob, agent="simulated", goal="answer a question")
    yield
    entity.fire("job_leased")
    yield
    entity.context.call(
        agent_job_log.append_event, entity.name, "tool_called", actor=entity.actor, payload={"tool": "search"}
    )
    if entity.chance(0.4):
        entity.fire("job_waiting", signal="an answer", attempt=1)
        yield
        if entity.chance(0.3):
            entity.fire("job_parked", actor=THE_SYSTEM)
            yield
        entity.fire("wait_completed")
        yield
        entity.fire("job_leased")
    yield
    attempt = AgentJob.objects.get(pk=entity.name).attempt
    if entity.fails:
        entity.fire("job_failed", error="no answer was found", attempt=attempt)
    else:
        entity.fire("job_completed", result={"answer": 42}, attempt=attempt)


def supervised_job(entity: SimulatedEntity) -> Steps:
    entity.create(SupervisedJob, task_description="summarise the findings", worker_count=1)
    yield
    if entity.chance(0.1):
        entity.fire("validation_error", actor=THE_SYSTEM, error="an input does not exist")
        return
    entity.fire("validate")
    yield
    worker = f"{entity.name}-w"
    entity.context.create(SupervisedWorker, worker, entity.actor, workspace_id="simulation")
    entity.fire("allocate_resources", workers=[worker])
    yield
    if entity.fails:
        entity.fire("error", error="the worker failed", attempt=1)
    else:
        entity.fire("success", result={"findings": 3}, attempt=1)
    entity.context.fire(SupervisedWorker, worker, "complete_tasks", entity.actor)


def supervised_worker(entity: SimulatedEntity) -> Steps:
    entity.create(SupervisedWorker, workspace_id="simulation", capacity=2)
    yield
    entity.fire("start_task")
    yield
    if entity.chance(0.4):
        entity.fire("pause", actor=THE_SYSTEM)
        yield
        entity.fire("resume", actor=THE_SYSTEM)
        yield
    if entity.fails:
        entity.fire("error_unrecoverable", error="out of memory")
    elif entity.chance(0.1):
        entity.fire("terminate", actor=THE_SYSTEM)
    else:
        entity.fire("complete_tasks")


def uet_worker(entity: SimulatedEntity) -> Steps:
    entity.create(UetWorker, worker_type="executor")
    yield
    if entity.chance(0.05):
        entity.fire("spawn_failed", error="no memory")
        return
    entity.fire("initialization_completed")
    for _task in range(entity.rng.randint(1, 4)):
        yield from _heartbeat(entity)
        entity.fire("task_assigned")
        yield from _heartbeat(entity)
        if entity.fails and entity.chance(0.5):
            entity.fire("worker_crashed", error="terminated by signal 11")
            return
        entity.fire("task_completed")
    yield from _heartbeat(entity)
    if entity.chance(0.5):
        entity.fire("task_assigned")
        yield
        entity.fire("shutdown_requested")
        yield
        entity.fire("current_task_finished")
    else:
        entity.fire("shutdown_requested")


def _heartbeat(entity: SimulatedEntity) -> Steps:
    entity.context.call(renew, UetWorker, entity.name, actor=entity.actor)
    yield


def pipeline_job(entity: SimulatedEntity) -> Steps:
    entity.create(PipelineJob, profile="nightly", command="import")
    for stage in ("analyze", "map", "materialize", "validate"):
        yield
        entity.fire(stage, detail=f"{stage} started")
        if entity.chance(0.7):
            entity.context.call(checkpoint.store, entity.name, stage, {"rows": entity.rng.randint(1, 10_000)})
        if entity.fails and entity.chance(0.3):
            yield
            entity.fire("fail", error=f"{stage} found missing data")
            return
    yield
    entity.fire("finish", detail="all rows imported")


def use_a_tool(entity: SimulatedEntity) -> Iterator[None]:
    """A tool that fails: calls until its breaker opens, then probes until it closes."""
    entity.name, entity.model = f"{entity.context.names.label}-{entity.rng.choice(TOOLS)}", CircuitBreaker
    with entity.context.exclusively(f"tool {entity.name}") as free:
        if free:
            yield from _open_and_close(entity)
        else:
            yield


def _open_and_close(entity: SimulatedEntity) -> Iterator[None]:
    row = CircuitBreaker.objects.filter(pk=entity.name)
    if not row.exists():
        fields = {"failure_threshold": THRESHOLD, "cooldown_seconds": COOLDOWN_SECONDS}
        entity.context.create(CircuitBreaker, entity.name, THE_SYSTEM, **fields)
    while row.get().state == State.CLOSED and entity.chance(0.8):
        yield
        _call(entity, succeeds=False)
    while row.get().state != State.CLOSED:  # also when stopped, so that no breaker stays open
        _call(entity, succeeds=entity.context.is_stopped or not entity.fails)
        yield


def _call(entity: SimulatedEntity, *, succeeds: bool) -> None:
    """Acquires the breaker and reports the result of the call; pauses if the breaker refuses."""
    if entity.context.call(breakers.acquire, entity.name, actor=entity.actor) is None:
        sleep(PAUSE)
        return
    error = "" if succeeds else "timed out"
    entity.context.call(breakers.report, entity.name, success=succeeds, error=error, actor=entity.actor)


KINDS: tuple[Callable[[SimulatedEntity], Steps], ...] = (
    ingestion_job,
    agent_job,
    supervised_job,
    supervised_worker,
    uet_worker,
    pipeline_job,
    use_a_tool,
)


class OtherMachines:
    """One thread that keeps `size` entities active and advances one of them at a time."""

    def __init__(self, context: Context, size: int) -> None:
        self.context, self.size, self.created = context, size, 0
        self.rng = context.names.random("neighbours")
        self.active: list[Steps] = []

    def run(self) -> None:
        while not self.context.is_stopped:
            while len(self.active) < self.size:
                self.active.append(self._start_next())
            self._step(self.rng.choice(self.active))
        for each in list(self.active):  # finish all of them
            while each in self.active:
                self._step(each)

    def _start_next(self) -> Steps:
        self.created += 1
        kind = KINDS[self.created % len(KINDS)]
        return kind(SimulatedEntity(self.context, self.rng, f"{self.context.names.label}-n{self.created}"))

    def _step(self, steps: Steps) -> None:
        if next(steps, self) is self:
            self.active.remove(steps)
