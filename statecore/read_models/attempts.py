"""The attempts at a task and at those that it succeeds, oldest first: the tries of one piece of work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Max

from ..kernel.clock import rfc3339
from ..machines.task import Task
from ..records.task_attempt import TaskAttempt

MAX_TRIES = 500
MAX_LINEAGE = 100


def list_attempts(task: Task) -> list[dict[str, Any]]:
    """Return the newest MAX_TRIES attempts; the last one may be in progress."""
    line = _lineage(task)
    kept = TaskAttempt.objects.filter(task__in=line).order_by("-started_at")[:MAX_TRIES]
    found = [each.as_dict() for each in reversed(kept)]
    known = {(each["task"], each["started_at"]) for each in found}
    current = [_describe_current(each) for each in line if each.started_at]
    found += [each for each in current if (each["task"], each["started_at"]) not in known]
    return sorted(found, key=lambda each: str(each["started_at"]))[-MAX_TRIES:]


def find_previous(tasks: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return, by task, the attempt before the current one, as a claim reports it; one query for those retried."""
    again = {each.pk: each.retry_of_id for each in tasks if each.attempt > 1 or each.retry_of_id}
    if not again:
        return {}
    wanted = [pk for pair in again.items() for pk in pair if pk]
    newest = TaskAttempt.objects.filter(task__in=wanted).values("task").annotate(last=Max("pk")).values("last")
    last = {kept.task_id: kept for kept in TaskAttempt.objects.filter(pk__in=newest)}
    found = {pk: last.get(pk) or last.get(before) for pk, before in again.items()}
    return {pk: _describe_previous(each) for pk, each in found.items() if each}


def _describe_previous(kept: TaskAttempt) -> dict[str, Any]:
    fields = {name: getattr(kept, name) for name in ("attempt", "exit_code", "error", "output")}
    return {**fields, "patch": kept.patch} if kept.patch else fields


def _lineage(task: Any) -> list[Any]:
    line = [task]
    while line[-1].retry_of_id and len(line) < MAX_LINEAGE:
        line.append(line[-1].retry_of)
    return line


def _describe_current(task: Any) -> dict[str, Any]:
    """The attempt that the row of the task still has."""
    ended = None if task.state in ("running", "validating") else task.completed_at or task.state_entered_at
    return {
        "task": task.pk,
        "attempt": task.attempt,
        "worker": task.last_worker or None,
        "started_at": rfc3339(task.started_at),
        "ended_at": ended and rfc3339(ended),
        "ended_by": None if ended is None else task.state,
        "exit_code": task.exit_code,
        "error": "",
        "output": task.output,
        "patch": task.patch_id,
        "result": task.result,
    }
