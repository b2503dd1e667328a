"""A task that an agent runs, and calls that write its log."""

from __future__ import annotations

from typing import Any

from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.scheduling import register, submit_plan
from statecore.scheduling.claims import claim
from tests.api.callers import Caller
from tests.support import world


def start_task(agent: Caller, task_id: str = "t", **fields: Any) -> Task:
    """Returns a task in a new run that a worker of the agent has claimed."""
    part = {"id": f"{task_id}-w", "tasks": [{"id": task_id, **fields}]}
    plan = {"id": f"{task_id}-r", "phase": world.phase().pk, "start": True, "workstreams": [part]}
    submit_plan(plan, actor=world.operator())
    actor = agent.token.as_agent()
    register(Worker, actor=actor, id=f"{task_id}-worker")
    claim(f"{task_id}-worker", actor=actor)
    return Task.objects.get(pk=task_id)


def lines(*texts: str, stream: str = "stdout") -> list[dict[str, Any]]:
    return [{"stream": stream, "text": text} for text in texts]


def write(agent: Caller, *texts: str, task: str = "t", attempt: int = 1, **more: Any) -> Any:
    return agent.post(f"tasks/{task}/logs/", {"attempt": attempt, "lines": lines(*texts), **more})


def read_texts(reader: Caller, task: str = "t", query: str = "") -> list[str]:
    return [line["text"] for line in reader.get(f"tasks/{task}/logs/?page_size=500&{query}").json()["results"]]
