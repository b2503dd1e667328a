"""The calls of agents that take or return another form than the API: they register, claim, report and write logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from .call import Call, build_path, call, drop_none, paged_call
from .calls import Calls
from .outcome import Outcome, read_outcome
from .readers import (
    read_as,
    read_claimed_tasks,
    read_entity,
    read_log_line,
    read_next,
    read_object,
    read_page_of,
    read_report_and_claim,
    read_task,
    read_worker,
)
from .records import (
    Entity,
    HeartbeatReply,
    Json,
    LeaseReply,
    LogLine,
    Page,
    ReportAndClaimResult,
    Task,
    WorkerEntity,
)


class AgentCalls(Calls):
    @call
    def register_worker(
        self,
        capabilities: Iterable[str] = (),
        *,
        worker_id: str | None = None,
        affinity: Mapping[str, Any] | None = None,
        max_concurrent_tasks: int | None = None,
        request_id: str | None = None,
    ) -> Call[WorkerEntity]:
        """Creates a worker that is ready to claim tasks. Without `worker_id` the server chooses one."""
        optional = drop_none(id=worker_id, affinity=affinity, max_concurrent_tasks=max_concurrent_tasks)
        body = {"capabilities": [*capabilities], **optional}
        return Call("POST", build_path("workers"), read_worker, body=body, keyed=True, request_id=request_id)

    @call
    def send_heartbeat(
        self, worker_id: str, *, holds: Iterable[Task] | None = None, progress: Mapping[str, Json] | None = None
    ) -> Call[HeartbeatReply]:
        """Reports that the worker is alive; the reply may have commands for it. Repeating a heartbeat is harmless.

        `holds` are the tasks in progress. The reply cancels those that the worker has lost, until it no longer lists
        them. `progress` has the `fraction` and the `detail` of tasks by their id.
        """
        known = progress or {}
        held = None if holds is None else [
            drop_none(id=task.id, attempt=task.attempt, progress=known.get(task.id)) for task in holds
        ]  # fmt: skip
        return Call(
            "POST", build_path("workers", worker_id, "heartbeat"), read_as(HeartbeatReply), body=drop_none(tasks=held)
        )

    @call
    def renew(
        self,
        collection: str,
        entity_id: str,
        /,
        *,
        attempt: int | None = None,
        fraction: float | None = None,
        detail: str | None = None,
    ) -> Call[LeaseReply]:
        """Renews what you hold (a task, job, gate or worker), optionally with its progress from 0 to 1.

        Raises `LeaseLost` if it was lost and `PermissionDenied` if another agent holds it. Repeating it is harmless.
        """
        progress = drop_none(fraction=fraction, detail=detail) or None
        body = drop_none(attempt=attempt, progress=progress)
        return Call("POST", build_path(collection, entity_id, "heartbeat"), read_as(LeaseReply), body=body)

    @call
    def claim_tasks(
        self, worker_id: str, *, limit: int | None = None, wait: float | None = None, request_id: str | None = None
    ) -> Call[list[Task]]:
        """Claims at most `limit` tasks and returns them; waits up to `wait` seconds (at most 30) for the first."""
        path = build_path("workers", worker_id, "claim")
        return Call(
            "POST", path, read_claimed_tasks, body=drop_none(max=limit), params=drop_none(wait=wait), keyed=True,
            request_id=request_id, extra_seconds=wait or 0.0,
        )  # fmt: skip

    @call
    def report_and_claim(
        self,
        worker_id: str,
        reports: Iterable[Mapping[str, Any]],
        *,
        limit: int | None = None,
        request_id: str | None = None,
    ) -> Call[ReportAndClaimResult]:
        """Reports results, then claims at most `limit` tasks. Each report is accepted or refused separately.

        A report has `task`, `attempt`, `trigger` (`execution_completed` or `execution_failed`) and its fields.
        """
        body = {"reports": [dict(report) for report in reports], **drop_none(max=limit)}
        path = build_path("workers", worker_id, "claim")
        return Call("POST", path, read_report_and_claim, body=body, keyed=True, request_id=request_id)

    @paged_call
    def list_held_tasks(self, worker_id: str) -> Call[Page[Task]]:
        """Yields the tasks that a worker holds, including those of a claim that got no response."""
        return Call(
            "GET", build_path("tasks"), read_page_of(read_task), params={"worker": worker_id, "state": "running"}
        )

    @call
    def complete_task(
        self,
        task_id: str,
        *,
        attempt: int,
        exit_code: int = 0,
        output: str = "",
        result: Any = None,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Reports success; raises `LeaseLost` if the worker no longer holds the task.

        The `result`, any JSON of at most 256 kB, is an input of the tasks that depend on this one.
        """
        body = {"trigger": "execution_completed", "attempt": attempt, "exit_code": exit_code, "output": output}
        return _report(task_id, {**body, **drop_none(result=result)}, request_id)

    @call
    def fail_task(
        self,
        task_id: str,
        *,
        attempt: int,
        error: str,
        exit_code: int | None = None,
        output: str = "",
        tool_failed: bool | UnsetType | None = UNSET,
        retry: bool = True,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Reports a failure; the task is retried while retries remain, unless `retry` is false.

        `tool_failed` is for the circuit breaker of the task's tool, None if the tool was not called. Without it, the
        exit code decides: the tool works if its command ran to its end.
        """
        body: Json = {"trigger": "execution_failed", "attempt": attempt, "error": error, "output": output}
        if tool_failed is not UNSET:
            body["tool_failed"] = tool_failed
        if not retry:
            body["retry"] = False
        return _report(task_id, {**body, **drop_none(exit_code=exit_code)}, request_id)

    @call
    def append_log(
        self,
        task_id: str,
        lines: Iterable[str | Mapping[str, Any]],
        *,
        attempt: int,
        offset: int | None = None,
        request_id: str | None = None,
    ) -> Call[int]:
        """Appends lines to the log of a task that you hold; returns the number of the line that is written next.

        A line is a text, or an object with `text`, `stream` (`stdout` or `stderr`) and `at`. `offset`, the number of
        lines of the attempt that were sent before, replaces the idempotency key of the call: use it for many lines.
        """
        given = [{"text": line} if isinstance(line, str) else dict(line) for line in lines]
        body = {"attempt": attempt, "lines": given, **drop_none(offset=offset)}
        path = build_path("tasks", task_id, "logs")
        return Call("POST", path, read_next, body=body, keyed=offset is None, request_id=request_id)

    @paged_call
    def read_log(self, task_id: str, *, after: int = 0, attempt: int | None = None) -> Call[Page[LogLine]]:
        """Yields the lines of a task's log after a number, oldest first; those of all attempts without `attempt`."""
        params = {"after": after, "page_size": 500, **drop_none(attempt=attempt)}
        return Call("GET", build_path("tasks", task_id, "logs"), read_page_of(read_log_line), params=params)

    @call
    def store_diff(self, diff: str, *, title: str = "", request_id: str | None = None) -> Call[Json]:
        """Stores a unified diff; pass its `id` to `submit_patch`."""
        body = {"diff": diff, "title": title}
        return Call("POST", build_path("diffs"), read_object, body=body, keyed=True, request_id=request_id)

    @call
    def submit_patch(self, task_id: str, *, attempt: int, diff_id: str, request_id: str | None = None) -> Call[Entity]:
        """Submits a patch for a task that you hold. After you report success, the task waits for its verification."""
        body = {"task": task_id, "attempt": attempt, "patch": diff_id}
        return Call("POST", build_path("patches"), read_entity, body=body, keyed=True, request_id=request_id)


def _report(task_id: str, body: Json, request_id: str | None) -> Call[Outcome]:
    return Call(
        "POST", build_path("tasks", task_id, "transitions"), read_outcome, body=body, keyed=True, request_id=request_id
    )
