"""What agents call: register, beat, claim, report, breakers, checkpoints, the log of an agent job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .call import Call, address, call, given, pages
from .connection import Connection
from .readers import (
    anything,
    as_told,
    claimed,
    entity,
    exchanged,
    nothing,
    outcome,
    page_of,
    reader,
    submitted,
    task,
    worker,
)
from .records import Beat, Entity, Exchanged, Json, Outcome, Page, Submitted, Task, Worker


class AgentCalls(Connection):
    @call
    def submit(self, plan: Mapping[str, Any], *, request_id: str | None = None) -> Call[Submitted]:
        """A whole run in one call: kept as a whole, or refused with the place of what is wrong."""
        return Call("POST", address("runs", "submit"), submitted, body=plan, keyed=True, request_id=request_id)

    @call
    def register(
        self,
        capabilities: Iterable[str] = (),
        *,
        worker_id: str | None = None,
        affinity: Mapping[str, Any] | None = None,
        max_concurrent_tasks: int | None = None,
        request_id: str | None = None,
    ) -> Call[Worker]:
        """A worker, ready to claim."""
        optional = given(id=worker_id, affinity=affinity, max_concurrent_tasks=max_concurrent_tasks)
        body = {"capabilities": [*capabilities], **optional}
        return Call("POST", address("workers"), worker, body=body, keyed=True, request_id=request_id)

    @call
    def heartbeat(self, worker_id: str, *, holds: Iterable[Task] | None = None) -> Call[Beat]:
        """Says that the worker lives; the answer says what it has to do. Repeats harm nothing, so there is no key.

        With `holds`, the tasks you are at, the answer cancels those that are no longer yours, until you let them go.
        """
        held = None if holds is None else [{"task": task.id, "attempt": task.attempt} for task in holds]
        return Call("POST", address("workers", worker_id, "heartbeat"), reader(Beat), body=given(holds=held))

    @call
    def claim(
        self, worker_id: str, *, most: int | None = None, wait: float | None = None, request_id: str | None = None
    ) -> Call[list[Task]]:
        """Tasks this worker holds from now on; waits up to `wait` seconds (at most 30) for the first."""
        path = address("workers", worker_id, "claim")
        return Call(
            "POST", path, claimed, body=given(max=most, wait=wait), keyed=True, request_id=request_id,
            extra_seconds=wait or 0.0,
        )  # fmt: skip

    @call
    def report_and_claim(
        self,
        worker_id: str,
        reports: Iterable[Mapping[str, Any]],
        *,
        most: int | None = None,
        request_id: str | None = None,
    ) -> Call[Exchanged]:
        """How tasks ended and the claim of the next, in one call: each report is taken or refused by itself.

        A report has `task`, `attempt`, `trigger` (`execution_completed` or `execution_failed`) and its fields.
        """
        body = {"reports": [dict(report) for report in reports], **given(max=most)}
        path = address("workers", worker_id, "claim")
        return Call("POST", path, exchanged, body=body, keyed=True, request_id=request_id)

    @pages
    def held(self, worker_id: str) -> Call[Page[Task]]:
        """The tasks a worker holds: also those of a claim whose answer was lost."""
        return Call("GET", address("tasks"), page_of(task), params={"worker": worker_id, "state": "running"})

    @call
    def complete(
        self, task_id: str, *, attempt: int, exit_code: int = 0, output: str = "", request_id: str | None = None
    ) -> Call[Outcome]:
        """Report success; `LeaseLost` where the task is somebody else's by now."""
        body = {"trigger": "execution_completed", "attempt": attempt, "exit_code": exit_code, "output": output}
        return _report(task_id, body, request_id)

    @call
    def fail(
        self,
        task_id: str,
        *,
        attempt: int,
        error: str,
        exit_code: int | None = None,
        output: str = "",
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Report a failure: the task is retried while retries remain."""
        body = {"trigger": "execution_failed", "attempt": attempt, "error": error, "output": output}
        return _report(task_id, {**body, **given(exit_code=exit_code)}, request_id)

    @call
    def store_diff(self, diff: str, *, title: str = "", request_id: str | None = None) -> Call[Json]:
        """A unified diff, kept as it is; its `id` is what a patch is handed in with."""
        body = {"diff": diff, "title": title}
        return Call("POST", address("diffs"), as_told, body=body, keyed=True, request_id=request_id)

    @call
    def hand_in(self, task_id: str, *, attempt: int, diff_id: str, request_id: str | None = None) -> Call[Entity]:
        """A patch for a task you hold: once you report success, the task waits until the patch is verified."""
        body = {"task": task_id, "attempt": attempt, "patch": diff_id}
        return Call("POST", address("patches"), entity, body=body, keyed=True, request_id=request_id)

    @call
    def acquire(self, tool: str, *, request_id: str | None = None) -> Call[Json]:
        """Leave to call a tool; `BreakerOpen` when it is not to be called now."""
        path = address("breakers", tool, "acquire")
        return Call("POST", path, as_told, body={}, keyed=True, request_id=request_id)

    @call
    def report(
        self, tool: str, *, success: bool, error: str | None = None, request_id: str | None = None
    ) -> Call[Json]:
        """How the call of a tool went."""
        body = {"success": success, **given(error=error)}
        path = address("breakers", tool, "report")
        return Call("POST", path, as_told, body=body, keyed=True, request_id=request_id)

    @call
    def checkpoint(self, job_id: str, phase: str) -> Call[Any]:
        return Call("GET", address("pipeline-jobs", job_id, "checkpoints", phase), anything)

    @call
    def store_checkpoint(self, job_id: str, phase: str, content: Any) -> Call[Any]:
        return Call("PUT", address("pipeline-jobs", job_id, "checkpoints", phase), anything, body=content)

    @call
    def clear_checkpoint(self, job_id: str, phase: str) -> Call[None]:
        return Call("DELETE", address("pipeline-jobs", job_id, "checkpoints", phase), nothing)

    @call
    def append_event(self, job_id: str, event: Mapping[str, Any], *, request_id: str | None = None) -> Call[Json]:
        """One event of an agent job; its state is the fold of its events."""
        path = address("agent-jobs", job_id, "events")
        return Call("POST", path, as_told, body=event, keyed=True, request_id=request_id)

    @pages
    def agent_events(self, job_id: str) -> Call[Page[Json]]:
        return Call("GET", address("agent-jobs", job_id, "events"), page_of(as_told))


def _report(task_id: str, body: Json, request_id: str | None) -> Call[Outcome]:
    return Call("POST", address("tasks", task_id, "transitions"), outcome, body=body, keyed=True, request_id=request_id)
