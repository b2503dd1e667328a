"""Every call of the API, described once for both clients. API collections are named as in the addresses: `tasks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .agent_calls import AgentCalls
from .call import Call, address, call, given, pages
from .operator_calls import OperatorCalls
from .readers import as_told, entity, event, explanation, outcome, page_of
from .records import Entity, Event, Explanation, Json, Outcome, Page


class Calls(AgentCalls, OperatorCalls):
    @call
    def get(self, collection: str, entity_id: str, /) -> Call[Entity]:
        """One entity."""
        return Call("GET", address(collection, entity_id), entity)

    @call
    def page(self, collection: str, /, **filters: Any) -> Call[Page[Entity]]:
        """One page of a list; `next` says whether there is more."""
        return Call("GET", address(collection), page_of(entity), params=filters)

    @pages
    def list(self, collection: str, /, **filters: Any) -> Call[Page[Entity]]:
        """Every entity that the filters let through, page by page."""
        return Call("GET", address(collection), page_of(entity), params=filters)

    @call
    def create(self, collection: str, /, *, request_id: str | None = None, **fields: Any) -> Call[Entity]:
        """A new entity, in the initial state of its machine."""
        return Call("POST", address(collection), entity, body=fields, keyed=True, request_id=request_id)

    @call
    def change(self, collection: str, entity_id: str, /, **fields: Any) -> Call[Entity]:
        """Change plain fields; the state is not one."""
        return Call("PATCH", address(collection, entity_id), entity, body=fields)

    @pages
    def history(self, collection: str, entity_id: str, /) -> Call[Page[Event]]:
        """What happened to an entity, oldest first."""
        return Call("GET", address(collection, entity_id, "transitions"), page_of(event))

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
        """Make a move; `fields` are the trigger's own. `dry_run` shows what would follow, and changes nothing."""
        beside = given(reason=reason, metadata=metadata, expected_version=expected_version, dry_run=dry_run or None)
        body = {**fields, **beside, "trigger": trigger}
        return Call(
            "POST", address(collection, entity_id, "transitions"), outcome, body=body, keyed=True, request_id=request_id
        )

    @call
    def explain(self, collection: str, entity_id: str, /) -> Call[Explanation]:
        """Each move from here and what is in its way, and the chain down to the root cause."""
        return Call("GET", address(collection, entity_id, "explain"), explanation)

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
        approver_token: str | None = None,
        request_id: str | None = None,
    ) -> Call[Outcome]:
        """Force a state; `dry_run` shows what it would change, and changes nothing.

        Where the policy demands a second person, `approver_token` is a token of theirs.
        """
        headers = {"Approver-Authorization": f"Bearer {approver_token}"} if approver_token else {}
        body = {"to_state": to_state, "reason": reason, "category": category}
        body |= given(dry_run=dry_run or None, expected_version=expected_version, metadata=metadata)
        return Call(
            "POST", address(collection, entity_id, "override"), outcome, body=body, keyed=True, request_id=request_id,
            headers=headers,
        )  # fmt: skip

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
        """The successor of something final; `dry_run` shows it, and makes none."""
        path, body = address(collection, entity_id, "retry"), given(reason=reason, dry_run=dry_run or None)
        return Call("POST", path, entity, body=body, keyed=True, request_id=request_id)

    @call
    def bulk(
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
        """One trigger for many; the answer lists each, or names the job to ask."""
        chosen = None if ids is None else [*ids]
        body = {"trigger": trigger, **given(ids=chosen, filter=matching, reason=reason, dry_run=dry_run or None)}
        path = address(collection, "bulk-transitions")
        return Call("POST", path, as_told, body=body, keyed=True, request_id=request_id)

    @call
    def bulk_job(self, job_id: str) -> Call[Json]:
        """How far a large bulk call is."""
        return Call("GET", address("bulk-jobs", job_id), as_told)

    @pages
    def bulk_results(self, job_id: str) -> Call[Page[Json]]:
        """What became of each, in the order they were given."""
        return Call("GET", address("bulk-jobs", job_id, "results"), page_of(as_told))
