"""The calls of every collection. Collections are named as in the API's addresses: `tasks`, `runs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .agent_calls import AgentCalls
from .artifact_calls import ArtifactCalls
from .call import Call, build_path, call, drop_none, paged_call
from .incident_calls import IncidentCalls
from .operator_calls import OperatorCalls
from .readers import (
    read_entity,
    read_event,
    read_explanation,
    read_object,
    read_outcome,
    read_page_of,
)
from .records import (
    Entity,
    Event,
    Explanation,
    Json,
    Outcome,
    Page,
)
from .schedule_calls import ScheduleCalls
from .webhook_calls import WebhookCalls


class Calls(AgentCalls, ArtifactCalls, IncidentCalls, OperatorCalls, ScheduleCalls, WebhookCalls):
    @call
    def get(self, collection: str, entity_id: str, /) -> Call[Entity]:
        """Returns one entity."""
        return Call("GET", build_path(collection, entity_id), read_entity)

    @call
    def get_page(self, collection: str, /, **filters: Any) -> Call[Page[Entity]]:
        """Returns one page of a list; `next` is None on the last page."""
        return Call("GET", build_path(collection), read_page_of(read_entity), params=filters)

    @paged_call
    def list(self, collection: str, /, **filters: Any) -> Call[Page[Entity]]:
        """Yields every entity that matches the filters; pages are fetched as needed."""
        return Call("GET", build_path(collection), read_page_of(read_entity), params=filters)

    @call
    def create(self, collection: str, /, *, request_id: str | None = None, **fields: Any) -> Call[Entity]:
        """Creates an entity in the initial state of its machine."""
        return Call("POST", build_path(collection), read_entity, body=fields, keyed=True, request_id=request_id)

    @call
    def edit(self, collection: str, entity_id: str, /, **fields: Any) -> Call[Entity]:
        """Changes fields other than the state."""
        return Call("PATCH", build_path(collection, entity_id), read_entity, body=fields)

    @paged_call
    def list_history(self, collection: str, entity_id: str, /) -> Call[Page[Event]]:
        """Yields the events of an entity, oldest first."""
        return Call("GET", build_path(collection, entity_id, "transitions"), read_page_of(read_event))

    @call
    def fire(
        self,
        collection: str,
        entity_id: str,
        trigger: str,
        /,
        *,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
        dry_run: bool = False,
        **fields: Any,
    ) -> Call[Outcome]:
        """Fires a trigger with its `fields`. `dry_run` returns what would change and changes nothing."""
        beside = drop_none(reason=reason, metadata=metadata, expected_version=expected_version, dry_run=dry_run or None)
        body = {**fields, **beside, "trigger": trigger}
        return Call(
            "POST",
            build_path(collection, entity_id, "transitions"),
            read_outcome,
            body=body,
            keyed=True,
            request_id=request_id,
        )

    @call
    def explain(self, collection: str, entity_id: str, /) -> Call[Explanation]:
        """Returns each transition from the current state with its unmet guards, and the chain to the root cause."""
        return Call("GET", build_path(collection, entity_id, "explain"), read_explanation)

    @call
    def override(
        self,
        collection: str,
        entity_id: str,
        to_state: str,
        /,
        *,
        reason: str,
        category: str,
        dry_run: bool = False,
        expected_version: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        clear_retry_count: bool = False,
        verified_output: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Forces a state. `dry_run` returns what would change and changes nothing.

        `clear_retry_count` gives a task all its retries back. `verified_output` (`name`, `sha256`, `bytes`) records
        which result was checked.

        Where a policy requires a second person, nothing changes yet: `approval` of the outcome is the request.
        """
        body = {"to_state": to_state, "reason": reason, "category": category}
        body |= drop_none(dry_run=dry_run or None, expected_version=expected_version, metadata=metadata)
        body |= drop_none(clear_retry_count=clear_retry_count or None, verified_output=verified_output)
        path = build_path(collection, entity_id, "override")
        return Call("POST", path, read_outcome, body=body, keyed=True, request_id=request_id)

    @call
    def retry(
        self,
        collection: str,
        entity_id: str,
        /,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Call[Entity]:
        """Creates and returns a successor of a final entity. `dry_run` returns it without creating it."""
        path, body = build_path(collection, entity_id, "retry"), drop_none(reason=reason, dry_run=dry_run or None)
        return Call("POST", path, read_entity, body=body, keyed=True, request_id=request_id)

    @call
    def fire_for_many(
        self,
        collection: str,
        trigger: str,
        /,
        *,
        ids: Iterable[str] | None = None,
        matching: Mapping[str, Any] | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Call[Json]:
        """Fires a trigger for many entities; returns a result for each, or the job that works through them."""
        chosen = None if ids is None else [*ids]
        body = {"trigger": trigger, **drop_none(ids=chosen, filter=matching, reason=reason, dry_run=dry_run or None)}
        path = build_path(collection, "bulk-transitions")
        return Call("POST", path, read_object, body=body, keyed=True, request_id=request_id)

    @call
    def apply_to_many(
        self,
        collection: str,
        action: str,
        /,
        *,
        ids: Iterable[str] | None = None,
        matching: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
        **fields: Any,
    ) -> Call[Json]:
        """Cancels, retries, overrides, waives, pauses, resumes, drains, acknowledges, assigns or fires for many.

        `fields` are those of the action, such as `reason`, `trigger`, `to_state` and `category`. Returns a result for
        each entity, or the job that works through them.
        """
        chosen = None if ids is None else [*ids]
        body = {"action": action, **fields, **drop_none(ids=chosen, filter=matching, dry_run=dry_run or None)}
        return Call("POST", build_path(collection, "bulk"), read_object, body=body, keyed=True, request_id=request_id)

    @call
    def stop_bulk_job(self, job_id: str) -> Call[Json]:
        """Ends a bulk job after the portion that is running, and returns it."""
        return Call("POST", build_path("bulk-jobs", job_id, "stop"), read_object, body={}, keyed=True)

    @call
    def get_bulk_job(self, job_id: str) -> Call[Json]:
        """Returns the progress of a bulk job."""
        return Call("GET", build_path("bulk-jobs", job_id), read_object)

    @paged_call
    def list_bulk_results(self, job_id: str) -> Call[Page[Json]]:
        """Yields the result of each entity of a bulk job, in the order of the request."""
        return Call("GET", build_path("bulk-jobs", job_id, "results"), read_page_of(read_object))
