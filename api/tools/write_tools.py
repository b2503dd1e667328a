"""Tools that change entities, for tokens of scope `agent`. There is no tool for overrides."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from statecore.records.token import Scope
from statecore_client import AsyncClient

from . import results
from .read_tools import Collection
from .tool import Arguments, tool


class Firing(Arguments):
    collection: Collection
    id: str
    trigger: Annotated[str, Meta(description="a trigger that `explain` reports as allowed")]
    reason: Annotated[str, Meta(description="the reason, recorded in the event")]
    fields: Annotated[dict[str, Any], Meta(description="the fields of the trigger")] = {}
    expected_version: Annotated[int | None, Meta(description="refuse if the entity has another version")] = None


class Creation(Arguments):
    collection: Collection
    fields: dict[str, Any]


class Plan(Arguments):
    plan: Annotated[
        dict[str, Any],
        Meta(description='{"id"?, "phase", "workstreams": [{"id", "tasks": [{"id", "depends_on"?, …}]}], "start"?}'),
    ]


class Registration(Arguments):
    capabilities: list[str] = []


class OneWorker(Arguments):
    worker_id: str


class Claim(OneWorker):
    wait: Annotated[float, Meta(ge=0, le=20, description="seconds to wait for a task")] = 0


class Report(Arguments):
    task_id: str
    attempt: Annotated[int, Meta(description="the attempt that the claim returned")]


class Success(Report):
    exit_code: int = 0
    output: str = ""
    result: Annotated[Any, Meta(description="any JSON up to 256 kB, an input of the tasks that depend on this")] = None


class Failure(Report):
    error: str


class LogLines(Report):
    lines: Annotated[list[str], Meta(min_length=1, max_length=1_000)]


class Patch(Report):
    diff: Annotated[str, Meta(description="a unified diff, as `git diff` prints it")]
    title: str = ""


class OneTool(Arguments):
    tool: Annotated[str, Meta(description="the id of the tool, such as pytest")]


class ToolReport(OneTool):
    success: bool
    error: str | None = None


@tool(Scope.AGENT, results.Fired)
async def fire_transition(client: AsyncClient, arguments: Firing) -> Any:
    """Fire a transition that agents may fire."""
    more = {"reason": arguments.reason, "expected_version": arguments.expected_version}
    return (
        await client.fire(arguments.collection, arguments.id, arguments.trigger, **{**arguments.fields, **more})
    ).fields


@tool(Scope.AGENT, results.Entity)
async def create_entity(client: AsyncClient, arguments: Creation) -> Any:
    """Create an entity in the initial state of its machine."""
    return (await client.create(arguments.collection, **arguments.fields)).fields


@tool(Scope.AGENT, results.Entity)
async def submit_plan(client: AsyncClient, arguments: Plan) -> Any:
    """Create a run from a plan, in one transaction; a refusal names the invalid part of the plan."""
    return (await client.submit_plan(arguments.plan)).fields


@tool(Scope.AGENT, results.Entity)
async def register_worker(client: AsyncClient, arguments: Registration) -> Any:
    """Register a worker that can claim tasks; it must send a heartbeat or claim every minute."""
    return (await client.register_worker(arguments.capabilities)).fields


@tool(Scope.AGENT, results.HeartbeatReply)
async def heartbeat(client: AsyncClient, arguments: OneWorker) -> Any:
    """Send a heartbeat; returns the tasks that the worker must stop."""
    return (await client.send_heartbeat(arguments.worker_id)).fields


@tool(Scope.AGENT, results.Claimed)
async def claim_task(client: AsyncClient, arguments: Claim) -> Any:
    """Claim the next task that the worker is capable of; the list is empty if there is none."""
    return {
        "tasks": [
            task.fields for task in await client.claim_tasks(arguments.worker_id, limit=1, wait=arguments.wait or None)
        ]
    }


@tool(Scope.AGENT, results.Fired)
async def complete_task(client: AsyncClient, arguments: Success) -> Any:
    """Report that a claimed task succeeded."""
    done = await client.complete_task(
        arguments.task_id, attempt=arguments.attempt, exit_code=arguments.exit_code, output=arguments.output,
        result=arguments.result,
    )  # fmt: skip
    return done.fields


@tool(Scope.AGENT, results.Fired)
async def fail_task(client: AsyncClient, arguments: Failure) -> Any:
    """Report that a claimed task failed; it is retried while retries remain."""
    return (await client.fail_task(arguments.task_id, attempt=arguments.attempt, error=arguments.error)).fields


@tool(Scope.AGENT, results.Written)
async def write_log(client: AsyncClient, arguments: LogLines) -> Any:
    """Append lines to the log of a claimed task, which operators read while you work."""
    following = await client.append_log(arguments.task_id, arguments.lines, attempt=arguments.attempt)
    return {"next": following}


@tool(Scope.AGENT, results.Entity)
async def submit_patch(client: AsyncClient, arguments: Patch) -> Any:
    """Submit a patch of a claimed task, before its completion is reported; the task waits until it is verified."""
    stored = await client.store_diff(arguments.diff, title=arguments.title)
    return (await client.submit_patch(arguments.task_id, attempt=arguments.attempt, diff_id=stored["id"])).fields


@tool(Scope.AGENT, results.Permission)
async def acquire_breaker(client: AsyncClient, arguments: OneTool) -> Any:
    """Request permission to call an external tool; refused while its circuit breaker is open."""
    return await client.acquire_breaker(arguments.tool)


@tool(Scope.AGENT, results.Counted)
async def report_breaker(client: AsyncClient, arguments: ToolReport) -> Any:
    """Report whether a call of an external tool succeeded."""
    return await client.report_breaker(arguments.tool, success=arguments.success, error=arguments.error)
