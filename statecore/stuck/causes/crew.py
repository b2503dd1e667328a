"""Why no worker takes a queued task: nobody is there, can do it, is near it, or is free."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...kernel.fields import related
from ...kernel.links import once
from ...machines.task import Task
from ...machines.worker import SILENCE_LIMIT, State
from .. import words

MOST_WORKERS = 1_000
WORKING = (State.IDLE, State.BUSY)


def why_nobody_takes(task: Task, at: datetime) -> str:
    crew = _live_workers(task, at)
    if not crew:
        return "there is no live worker"
    able = [worker for worker in crew if not worker.lacking(task.required_capabilities)]
    if not able:
        return f"no live worker has {_what_is_lacking(task, crew)}"
    near = [worker for worker in able if worker.is_near(task.workstream_id)]
    if not near:
        return f"no live worker{_with(task)} has affinity to workstream {task.workstream_id}"
    free = [worker for worker in near if worker.why_not_at_all() is None]
    if not free:
        return _all_are_taken(near)
    return f"worker {free[0].pk} could take it and has not asked"


def _live_workers(task: Task, at: datetime) -> list[Any]:
    heard_from = related(task, "worker").objects.filter(state__in=WORKING, last_heartbeat__gte=at - SILENCE_LIMIT)
    return once((_live_workers, at), lambda: list(heard_from.order_by("pk")[:MOST_WORKERS]))


def _what_is_lacking(task: Task, crew: list[Any]) -> str:
    known = {capability for worker in crew for capability in worker.capabilities}
    unknown = [capability for capability in task.required_capabilities if capability not in known]
    return words.listed(unknown) if unknown else f"{words.listed(task.required_capabilities)} together"


def _with(task: Task) -> str:
    return f" with {words.listed(task.required_capabilities)}" if task.required_capabilities else ""


def _all_are_taken(near: list[Any]) -> str:
    how = " or ".join(word for word in ("busy", "full") if any(_is(worker, word) for worker in near))
    if len(near) == 1:
        return f"worker {near[0].pk}, the only one that could take it, is {how}"
    return f"all {len(near)} workers that could take it are {how}"


def _is(worker: Any, word: str) -> bool:
    return bool((worker.state == State.BUSY) == (word == "busy"))
