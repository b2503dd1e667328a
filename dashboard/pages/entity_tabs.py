"""The sections of an entity's page: those that every machine has, and those of one machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from statecore.dashboard import permissions
from statecore.dashboard.queries import diff, history, related
from statecore.dashboard.queries.liveness import read_liveness
from statecore.executors import compensation
from statecore.executors.compensation_plan import digest
from statecore.executors.rollback import steps_of
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.machines.agent_job import AgentJob
from statecore.machines.patch_ledger import PatchLedger, State
from statecore.machines.pipeline_job import PipelineJob
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.read_models import attempts
from statecore.records import AgentJobEvent, artifact, checkpoint

from . import task_log
from .query_params import get_number

MAX_TASKS, EVENTS_PAGE, STEPS = 200, 100, 200
CHECKS = ("format", "scope", "constraints", "tests")


class Tab(NamedTuple):
    """A section, whose template is `parts/{name}.html`; without a machine, every machine has it."""

    title: str
    read: Callable[[HttpRequest, Any], dict[str, Any]]
    machine: Flow | None = None


def list_tabs(entity: Entity) -> dict[str, Tab]:
    return {name: tab for name, tab in TABS.items() if tab.machine in (None, entity.flow)}


def get_tab(request: HttpRequest, entity: Entity) -> str:
    given = request.GET.get("tab", "history")
    return given if given in list_tabs(entity) else "history"


def _read_history(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    before = get_number(request, "before")
    events, more = history.list_events(entity, before)
    archived = history.find_archived(entity, events) if more is None else None
    return {"events": events, "more": more, "is_first": before is None, "archived": archived}


def _read_related(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    return {"relations": related.list_relations(entity, permissions.visible_types(request))}


def _read_attempts(request: HttpRequest, task: Task) -> dict[str, Any]:
    found = attempts.list_attempts(task)
    return {"attempts": [{"try": number, **each} for number, each in enumerate(found, 1)][::-1]}


def _read_result(request: HttpRequest, task: Task) -> dict[str, Any]:
    """The result as indented JSON, and the artifacts with the links that download them."""
    links = [(each, reverse("artifact", args=[task.pk, each.name])) for each in artifact.list_of(task.pk)]
    return {"result": "" if task.result is None else _format_json(task.result), "artifacts": links}


def _read_data(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    return {"json": _format_json(entity.as_dict())}


def _read_worker_tasks(request: HttpRequest, worker: Worker) -> dict[str, Any]:
    """The tasks that the worker holds, with their progress; none for accounts that may not see tasks."""
    if not permissions.is_allowed(request.user, Task.flow, "view"):
        return {"may_see_tasks": False}
    held = Task.objects.filter(worker=worker.pk, state__in=[*Task.flow.live]).order_by("state_entered_at")[:MAX_TASKS]
    return {"may_see_tasks": True, "tasks": [(task, read_liveness(task, now())) for task in held]}


def _read_checkpoints(request: HttpRequest, job: PipelineJob) -> dict[str, Any]:
    found = checkpoint.list_all(job.pk)
    return {"checkpoints": [(each, _format_json(each.payload)) for each in found]}


def _read_job_events(request: HttpRequest, job: AgentJob) -> dict[str, Any]:
    """The newest events of the job's log first."""
    before = get_number(request, "before")
    rows = AgentJobEvent.objects.filter(job=job.pk).order_by("-sequence")
    found = list((rows if before is None else rows.filter(sequence__lt=before))[: EVENTS_PAGE + 1])
    shown = found[:EVENTS_PAGE]
    more = shown[-1].sequence if len(found) > EVENTS_PAGE else None
    return {"log": [(each, _format_json(each.payload) if each.payload else "") for each in shown], "more": more}


def _read_diff(request: HttpRequest, entry: PatchLedger) -> dict[str, Any]:
    checks = [(name, getattr(entry, f"validation_{name}_passed")) for name in CHECKS]
    details = entry.quarantine_metadata
    return {
        "diff": diff.parse(entry.patch.diff),
        "checks": checks,
        "is_judged": entry.state not in (State.CREATED, State.VALIDATED),
        "quarantine": _format_json(details) if details else "",
    }


def read_compensation(request: HttpRequest, entry: PatchLedger) -> dict[str, Any]:
    """The plan with its approval, what may be done next, and the steps that were recorded."""
    plan, is_committed = entry.compensation_plan or None, entry.state == State.COMMITTED
    proposed = plan or (compensation.default_plan(entry) if is_committed else None)
    may = {action: permissions.is_allowed(request.user, entry.flow, action) for action in ("operate", "override")}
    return {
        "plan": _format_json(plan) if plan else "",
        "proposed": _format_json(proposed) if proposed else "",
        "digest": digest(plan) if plan else "",
        "approved_by": entry.compensation_approved_by,
        "may_write": is_committed and may["operate"],
        "may_approve": bool(is_committed and plan and not entry.compensation_approved_by and may["override"]),
        "may_request": bool(is_committed and entry.compensation_approved_by and may["operate"]),
        "steps": list(steps_of(entry.pk)[:STEPS]),
    }


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


TABS = {
    "history": Tab("History", _read_history),
    "worker_tasks": Tab("Tasks", _read_worker_tasks, Worker.flow),
    "diff": Tab("Diff and checks", _read_diff, PatchLedger.flow),
    "compensation": Tab("Rollback", read_compensation, PatchLedger.flow),
    "checkpoints": Tab("Checkpoints", _read_checkpoints, PipelineJob.flow),
    "job_events": Tab("Log", _read_job_events, AgentJob.flow),
    "log": Tab("Log", task_log.read_context, Task.flow),
    "attempts": Tab("Attempts", _read_attempts, Task.flow),
    "result": Tab("Result", _read_result, Task.flow),
    "related": Tab("Related", _read_related),
    "data": Tab("Data", _read_data),
}
