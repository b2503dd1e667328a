"""Tools that only look."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from api.client import AsyncClient
from statecore.records.token import Scope

from .tool import Arguments, tool

Collection = Annotated[str, Meta(description="tasks, runs, workstreams, workers, patches, gates, breakers, …")]
Limit = Annotated[int, Meta(ge=1, le=200, description="how many at most")]


class Nothing(Arguments):
    pass


class OneMachine(Arguments):
    entity_type: Annotated[str, Meta(description="task, run, workstream, worker, …")]


class OneEntity(Arguments):
    collection: Collection
    id: str


class Some(Arguments):
    limit: Limit = 50


class Entities(Some, kw_only=True):
    collection: Collection
    filters: Annotated[
        dict[str, str | list[str]], Meta(description='by field: {"state": ["running", "queued"], "run": "r1"}')
    ] = {}


class History(Some, kw_only=True):
    collection: Collection
    id: str


@tool(Scope.READ)
async def list_machines(client: AsyncClient, asked: Nothing) -> Any:
    """The kinds of entities there are, with their states."""
    return [{"entity_type": m.entity_type, "states": m.states} for m in await client.machines()]


@tool(Scope.READ)
async def describe_machine(client: AsyncClient, asked: OneMachine) -> Any:
    """One machine as it is declared: states, moves, guards, and who may fire what."""
    return (await client.machine(asked.entity_type)).fields


@tool(Scope.READ)
async def list_entities(client: AsyncClient, asked: Entities) -> Any:
    """Entities of one collection, newest first, narrowed by fields."""
    page = await client.page(asked.collection, **{**asked.filters, "page_size": asked.limit})
    return {"results": [each.fields for each in page.results], "more": page.next is not None}


@tool(Scope.READ)
async def get_entity(client: AsyncClient, asked: OneEntity) -> Any:
    """One entity with all its fields."""
    return (await client.get(asked.collection, asked.id)).fields


@tool(Scope.READ)
async def get_history(client: AsyncClient, asked: History) -> Any:
    """What happened to an entity, oldest first: who moved it, when, why."""
    found: list[Any] = []
    async for event in client.history(asked.collection, asked.id):
        if len(found) == asked.limit:
            return {"events": found, "more": True}
        found.append(event.fields)
    return {"events": found, "more": False}


@tool(Scope.READ)
async def explain(client: AsyncClient, asked: OneEntity) -> Any:
    """Why an entity is where it is: each move from here, what is in its way, and the root cause."""
    return (await client.explain(asked.collection, asked.id)).fields


@tool(Scope.READ)
async def list_stuck(client: AsyncClient, asked: Some) -> Any:
    """What is past its deadline or needs a decision, with the reason in a sentence."""
    found: list[Any] = []
    async for each in client.stuck():
        if len(found) == asked.limit:
            return {"results": found, "more": True}
        found.append(each.fields)
    return {"results": found, "more": False}


@tool(Scope.READ)
async def get_stats(client: AsyncClient, asked: Nothing) -> Any:
    """Counts by machine and state, rates of failures and overrides."""
    return await client.stats()
