"""Tools that change something: for tokens whose scope allows it. None of them forces anything."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from api.client import AsyncClient
from statecore.records.token import Scope

from .reading import Collection
from .tool import Arguments, tool


class Firing(Arguments):
    collection: Collection
    id: str
    trigger: Annotated[str, Meta(description="one that `explain` lists as allowed")]
    reason: Annotated[str, Meta(description="why; kept on record")]
    fields: Annotated[dict[str, Any], Meta(description="the trigger's own fields")] = {}
    expected_version: Annotated[int | None, Meta(description="refuse if it has changed since")] = None


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
    attempt: Annotated[int, Meta(description="the one the claim told: it proves that the task is still yours")]


class Success(Report):
    exit_code: int = 0
    output: str = ""


class Failure(Report):
    error: str


class OneTool(Arguments):
    tool: Annotated[str, Meta(description="the id of the tool, such as pytest")]


class ToolReport(OneTool):
    success: bool
    error: str | None = None


@tool(Scope.AGENT)
async def fire_transition(client: AsyncClient, asked: Firing) -> Any:
    """Make a move that is open to agents."""
    beside = {"reason": asked.reason, "expected_version": asked.expected_version}
    return (await client.fire(asked.collection, asked.id, asked.trigger, **{**asked.fields, **beside})).fields


@tool(Scope.AGENT)
async def create_entity(client: AsyncClient, asked: Creation) -> Any:
    """A new entity in the initial state of its machine."""
    return (await client.create(asked.collection, **asked.fields)).fields


@tool(Scope.AGENT)
async def submit_plan(client: AsyncClient, asked: Plan) -> Any:
    """A whole run: kept as a whole, or refused with the place of what is wrong."""
    return (await client.submit(asked.plan)).fields


@tool(Scope.AGENT)
async def register_worker(client: AsyncClient, asked: Registration) -> Any:
    """Become a worker that can claim tasks. It must be heard from (heartbeat or claim) every minute."""
    return (await client.register(asked.capabilities)).fields


@tool(Scope.AGENT)
async def heartbeat(client: AsyncClient, asked: OneWorker) -> Any:
    """Say that the worker lives, and hear which of its tasks were cancelled."""
    return (await client.heartbeat(asked.worker_id)).fields


@tool(Scope.AGENT)
async def claim_task(client: AsyncClient, asked: Claim) -> Any:
    """Take the next task this worker can do; an empty list when there is none."""
    return {"tasks": [task.fields for task in await client.claim(asked.worker_id, most=1, wait=asked.wait or None)]}


@tool(Scope.AGENT)
async def complete_task(client: AsyncClient, asked: Success) -> Any:
    """Report that a claimed task is done."""
    done = await client.complete(
        asked.task_id, attempt=asked.attempt, exit_code=asked.exit_code, output=asked.output
    )  # fmt: skip
    return done.fields


@tool(Scope.AGENT)
async def fail_task(client: AsyncClient, asked: Failure) -> Any:
    """Report that a claimed task failed; it is retried while retries remain."""
    return (await client.fail(asked.task_id, attempt=asked.attempt, error=asked.error)).fields


@tool(Scope.AGENT)
async def acquire_breaker(client: AsyncClient, asked: OneTool) -> Any:
    """Ask before calling an external tool; refused while its circuit breaker is open."""
    return await client.acquire(asked.tool)


@tool(Scope.AGENT)
async def report_breaker(client: AsyncClient, asked: ToolReport) -> Any:
    """Tell how the call of an external tool went."""
    return await client.report(asked.tool, success=asked.success, error=asked.error)
