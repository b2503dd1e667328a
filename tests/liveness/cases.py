"""Each machine that works: how an agent comes to hold an entity, keeps it, loses it, and reports too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from statecore import scheduling, transitions
from statecore.kernel.actors import Actor
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.read_models import stuck
from statecore.scheduling import heartbeats, timers
from tests.support import world

HOLDER, OTHER = Actor.agent("agent-holder"), Actor.agent("agent-other")


@dataclass(frozen=True)
class Case:
    """`limits`: the silences after each of which a sweep runs; the holder has lost the entity after the last one."""

    name: str
    hold: Callable[[], Any]
    limits: tuple[timedelta, ...]
    is_lost: Callable[[Any], bool]
    report_late: Callable[[Any], object]

    def __str__(self) -> str:
        return self.name


def renew(entity: Any, actor: Actor = HOLDER) -> dict[str, Any]:
    """Sends a heartbeat; a task is renewed by the heartbeat of its worker."""
    if isinstance(entity, Task):
        return scheduling.record_heartbeat(entity.worker_id, actor=actor, holds={(entity.pk, entity.attempt)})
    if isinstance(entity, Worker):
        return scheduling.record_heartbeat(entity.pk, actor=actor)
    return scheduling.renew(type(entity), entity.pk, actor=actor)


def sweep() -> None:
    heartbeats.repair_heartbeats()
    timers.time_out_tasks()
    timers.fail_silent_tasks()
    timers.mark_unresponsive_workers()
    timers.end_lost_workers()
    stuck.recover_stalled()


def create(name: str, **fields: Any) -> Any:
    return transitions.create(world.model(name), actor=HOLDER, **fields).entity


def report(entity: Any, trigger: str, **params: Any) -> Any:
    return world.fire(entity, trigger, actor=HOLDER, **params)


def hold_worker() -> Any:
    return report(create("Worker"), "registration_completed")


def submit_task() -> None:
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "w", "tasks": [{"id": "t"}]}]}
    scheduling.submit_plan(plan, actor=world.operator())


def hold_task() -> Any:
    submit_task()
    (task,) = scheduling.claim(hold_worker().pk, actor=HOLDER)
    return task


def hold_supervised_job() -> Any:
    job = report(create("SupervisedJob", task_description="count"), "validate")
    return report(job, "allocate_resources", workers=world.idle_supervised_workers("sw1"))


def take_over_pipeline_job(job: Any) -> object:
    world.fire(job, "map", actor=OTHER)
    return report(job, "materialize")


MINUTES_5, MINUTES_30, HOUR = timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1)
CASES = (
    Case(
        "worker",
        hold_worker,
        (MINUTES_5,),
        lambda worker: worker.state == "shutdown",
        lambda worker: scheduling.claim(worker.pk, actor=HOLDER),
    ),
    Case(
        "task",
        hold_task,
        (timedelta(seconds=75),),
        lambda task: task.state == "retrying",
        lambda task: report(task, "execution_completed", attempt=1, exit_code=0),
    ),
    Case(
        "uet_worker",
        lambda: report(create("UetWorker", worker_type="python"), "initialization_completed"),
        (timedelta(minutes=2), timedelta(minutes=3)),
        lambda worker: worker.state == "TERMINATED",
        lambda worker: report(worker, "task_assigned"),
    ),
    Case(
        "supervised_worker",
        lambda: report(create("SupervisedWorker", workspace_id="ws"), "start_task"),
        (HOUR,),
        lambda worker: worker.state == "TERMINATED",
        lambda worker: report(worker, "complete_tasks"),
    ),
    Case(
        "supervised_job",
        hold_supervised_job,
        (HOUR,),
        lambda job: job.state == "CANCELED",
        lambda job: report(job, "success", attempt=1),
    ),
    Case(
        "ingestion_job",
        lambda: report(create("IngestionJob", source="feed"), "start"),
        (timedelta(minutes=10),),
        lambda job: job.state == "pending",
        lambda job: report(job, "succeed", attempt=1),
    ),
    Case(
        "agent_job",
        lambda: report(create("AgentJob", goal="sort"), "job_leased"),
        (MINUTES_30,),
        lambda job: job.state == "queued",
        lambda job: report(job, "job_completed", attempt=1),
    ),
    Case(
        "pipeline_job",
        lambda: report(create("PipelineJob"), "analyze"),
        (MINUTES_30,),
        lambda job: job.is_free(),
        take_over_pipeline_job,
    ),
)
