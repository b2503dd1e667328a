"""Tools that read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from msgspec import Meta

from statecore.records.token import Scope
from statecore_client import AsyncClient

from . import results
from .tool import Arguments, tool

Collection = Annotated[str, Meta(description="tasks, runs, workstreams, workers, patches, gates, breakers, …")]
Limit = Annotated[int, Meta(ge=1, le=200, description="maximum number of results")]


class NoArguments(Arguments):
    pass


class MachineArguments(Arguments):
    entity_type: Annotated[str, Meta(description="task, run, workstream, worker, …")]


class EntityArguments(Arguments):
    collection: Collection
    id: str


class ListArguments(Arguments):
    limit: Limit = 50


class EntityListArguments(ListArguments, kw_only=True):
    collection: Collection
    filters: Annotated[
        dict[str, str | list[str]], Meta(description='by field: {"state": ["running", "queued"], "run": "r1"}')
    ] = {}


class TaskArguments(ListArguments, kw_only=True):
    task_id: str


class LogArguments(TaskArguments, kw_only=True):
    after: Annotated[int, Meta(ge=0, description="the number of the last line that you have read")] = 0
    attempt: int | None = None


class HistoryArguments(ListArguments, kw_only=True):
    collection: Collection
    id: str


@tool(Scope.READ, results.MachineList)
async def list_machines(client: AsyncClient, arguments: NoArguments) -> Any:
    """List the machines (kinds of entities) with their states."""
    return [{"entity_type": machine.entity_type, "states": machine.states} for machine in await client.list_machines()]


@tool(Scope.READ, results.Machine)
async def describe_machine(client: AsyncClient, arguments: MachineArguments) -> Any:
    """Read the declaration of a machine: states, transitions, guards and permitted actors."""
    return _without_deprecated((await client.get_machine(arguments.entity_type)).fields)


@tool(Scope.READ, results.EntityList)
async def list_entities(client: AsyncClient, arguments: EntityListArguments) -> Any:
    """List the entities of a collection, newest first, filtered by fields."""
    page = await client.get_page(arguments.collection, **{**arguments.filters, "page_size": arguments.limit})
    return {"results": [each.fields for each in page.results], "more": page.next is not None}


@tool(Scope.READ, results.Entity)
async def get_entity(client: AsyncClient, arguments: EntityArguments) -> Any:
    """Read one entity with all its fields."""
    return (await client.get(arguments.collection, arguments.id)).fields


@tool(Scope.READ, results.History)
async def get_history(client: AsyncClient, arguments: HistoryArguments) -> Any:
    """List the events of an entity, oldest first, with actor, time and reason."""
    found: list[Any] = []
    async for event in client.list_history(arguments.collection, arguments.id):
        if len(found) == arguments.limit:
            return {"events": found, "more": True}
        found.append(event.fields)
    return {"events": found, "more": False}


@tool(Scope.READ, results.Explanation)
async def explain(client: AsyncClient, arguments: EntityArguments) -> Any:
    """Explain the state of an entity: its transitions, their unmet conditions, and the root cause if it waits."""
    return _without_deprecated((await client.explain(arguments.collection, arguments.id)).fields)


def _without_deprecated(fields: dict[str, Any]) -> dict[str, Any]:
    """Omit `moves`, which repeats `transitions`, to keep the response short."""
    return {name: value for name, value in fields.items() if name != "moves"}


@tool(Scope.READ, results.StuckList)
async def list_stuck(client: AsyncClient, arguments: ListArguments) -> Any:
    """List entities that are overdue or need a decision, each with the reason."""
    return await _collect(client.list_stuck(), arguments.limit)


@tool(Scope.READ, results.Stats)
async def get_stats(client: AsyncClient, arguments: NoArguments) -> Any:
    """Read counts by machine and state, and the rates of failures and overrides."""
    return await client.get_stats()


@tool(Scope.READ, results.Rows)
async def list_attempts(client: AsyncClient, arguments: TaskArguments) -> Any:
    """List the attempts at a task, oldest first, with the error and output of each."""
    return await _collect(client.list_attempts(arguments.task_id), arguments.limit)


@tool(Scope.READ, results.Rows)
async def read_log(client: AsyncClient, arguments: LogArguments) -> Any:
    """Read the log of a task, oldest lines first, after a line number; of one attempt if it is given."""
    found = client.read_log(arguments.task_id, after=arguments.after, attempt=arguments.attempt)
    return await _collect(found, arguments.limit)


@tool(Scope.READ, results.Rows)
async def list_artifacts(client: AsyncClient, arguments: TaskArguments) -> Any:
    """List the artifacts of a task: name, size, type and digest."""
    found = [each.fields for each in await client.list_artifacts(arguments.task_id)]
    return {"results": found[: arguments.limit], "more": len(found) > arguments.limit}


@tool(Scope.READ, results.Rows)
async def list_holds(client: AsyncClient, arguments: ListArguments) -> Any:
    """List the active holds, which keep tasks from being claimed, with the reason and end of each."""
    return await _collect(client.list_holds(status="active"), arguments.limit)


@tool(Scope.READ, results.Rows)
async def list_approvals(client: AsyncClient, arguments: ListArguments) -> Any:
    """List the overrides that wait for the approval of a second person."""
    return await _collect(client.list_approvals(status="pending"), arguments.limit)


async def _collect(found: AsyncIterator[Any], limit: int) -> dict[str, Any]:
    rows: list[Any] = []
    async for each in found:
        if len(rows) == limit:
            return {"results": rows, "more": True}
        rows.append(getattr(each, "fields", each))
    return {"results": rows, "more": False}
