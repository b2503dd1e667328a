"""The calls that are tools. There is none for overrides; the others ask for the scope `agent`, or `read` to read."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from statecore_client import AsyncClient

from .tool import Tool


async def list_machines(client: AsyncClient) -> Any:
    return [{"entity_type": machine.entity_type, "states": machine.states} for machine in await client.list_machines()]


async def describe_machine(client: AsyncClient, entity_type: str) -> Any:
    return _without_deprecated((await client.get_machine(entity_type)).fields)


async def list_entities(
    client: AsyncClient,
    collection: str,
    filters: Annotated[
        dict[str, str | list[str]], Meta(description='by field: {"state": ["running", "queued"], "run": "r1"}')
    ] = {},  # noqa: B006 - copied for each call
    limit: int = 50,
) -> Any:
    page = await client.get_page(collection, **{**filters, "page_size": limit})
    return {"results": [each.fields for each in page.results], "more": page.next is not None}


async def get_entity(client: AsyncClient, collection: str, id: str) -> Any:  # noqa: A002 - as in the API
    return await client.get(collection, id)


def get_history(client: AsyncClient, collection: str, id: str) -> Any:  # noqa: A002 - as in the API
    return client.list_history(collection, id)


async def explain(client: AsyncClient, collection: str, id: str) -> Any:  # noqa: A002 - as in the API
    return _without_deprecated((await client.explain(collection, id)).fields)


def _without_deprecated(fields: dict[str, Any]) -> dict[str, Any]:
    """Omit `moves`, which repeats `transitions`, to keep the response short."""
    return {name: value for name, value in fields.items() if name != "moves"}


async def fire_transition(
    client: AsyncClient,
    collection: str,
    id: str,  # noqa: A002 - as in the API
    trigger: str,
    reason: str,
    fields: Annotated[dict[str, Any], Meta(description="the fields of the trigger")] = {},  # noqa: B006
    expected_version: int | None = None,
) -> Any:
    more = {"reason": reason, "expected_version": expected_version}
    return await client.fire(collection, id, trigger, **{**fields, **more})


async def create_entity(client: AsyncClient, collection: str, fields: dict[str, Any]) -> Any:
    return await client.create(collection, **fields)


async def submit_patch(client: AsyncClient, task_id: str, attempt: int, diff: str, title: str = "") -> Any:
    stored = await client.store_diff(diff, title=title)
    return await client.submit_patch(task_id, attempt=attempt, diff_id=stored["id"])


ENTITY = ("collection", "id")
REPORT = ("task_id", "attempt")
TOOLS = (
    Tool("list_machines", "List the machines (kinds of entities) with their states.", "list_machines",
         performs=list_machines),
    Tool("describe_machine", "Read the declaration of a machine: states, transitions, guards and permitted actors.",
         "get_machine", ("entity_type",), describe_machine),
    Tool("list_entities", "List the entities of a collection, newest first, filtered by fields.", "list",
         ("collection", "filters", "limit"), list_entities),
    Tool("get_entity", "Read one entity with all its fields.", "get", ENTITY, get_entity),
    Tool("get_history", "List the events of an entity, oldest first, with actor, time and reason.", "list_history",
         (*ENTITY, "limit"), get_history, member="events"),
    Tool("explain", "Explain the state of an entity: its transitions, their unmet conditions, and the root cause if it "
         "waits.", "explain", ENTITY, explain),
    Tool("list_stuck", "List entities that are overdue or need a decision, each with the reason.", "list_stuck",
         ("limit",)),
    Tool("get_stats", "Read counts by machine and state, and the rates of failures and overrides.", "get_stats"),
    Tool("list_attempts", "List the attempts at a task, oldest first, with the error and output of each.",
         "list_attempts", ("task_id", "limit")),
    Tool("read_log", "Read the log of a task, oldest lines first, after a line number; of one attempt if it is given.",
         "read_log", ("task_id", "after", "attempt", "limit")),
    Tool("list_artifacts", "List the artifacts of a task: name, size, type and digest.", "list_artifacts",
         ("task_id", "limit")),
    Tool("list_holds", "List the active holds, which keep tasks from being claimed, with the reason and end of each.",
         "list_holds", ("limit",), fixed={"status": "active"}),
    Tool("list_approvals", "List the overrides that wait for the approval of a second person.", "list_approvals",
         ("limit",), fixed={"status": "pending"}),
    Tool("fire_transition", "Fire a transition that agents may fire.", "fire",
         (*ENTITY, "trigger", "reason", "fields", "expected_version"), fire_transition),
    Tool("create_entity", "Create an entity in the initial state of its machine.", "create", ("collection", "fields"),
         create_entity),
    Tool("submit_plan", "Create a run from a plan, in one transaction; a refusal names the invalid part of the plan.",
         "submit_plan", ("plan",)),
    Tool("register_worker", "Register a worker that can claim tasks; it must send a heartbeat or claim every minute.",
         "create", ("capabilities",), "register_worker", collection="workers"),
    Tool("heartbeat", "Send a heartbeat; returns the tasks that the worker must stop.", "send_heartbeat",
         ("worker_id",)),
    Tool("claim_task", "Claim the next task that the worker is capable of; the list is empty if there is none.",
         "claim_tasks", ("worker_id", "wait"), fixed={"limit": 1}, member="tasks"),
    Tool("complete_task", "Report that a claimed task succeeded.", "fire", (*REPORT, "exit_code", "output", "result"),
         "complete_task", collection="tasks"),
    Tool("fail_task", "Report that a claimed task failed; it is retried while retries remain.", "fire",
         (*REPORT, "error"), "fail_task", collection="tasks"),
    Tool("write_log", "Append lines to the log of a claimed task, which operators read while you work.", "append_log",
         (*REPORT, "lines"), member="next"),
    Tool("submit_patch", "Submit a patch of a claimed task, before its completion is reported; the task waits until it "
         "is verified.", "create", (*REPORT, "diff", "title"), submit_patch, collection="patches"),
    Tool("acquire_breaker", "Request permission to call an external tool; refused while its circuit breaker is open.",
         "acquire_breaker", ("tool",)),
    Tool("report_breaker", "Report whether a call of an external tool succeeded.", "report_breaker",
         ("tool", "success", "error")),
)  # fmt: skip
catalogue = {tool.name: tool for tool in TOOLS}
