"""The calls of operators that take or return another form than the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .call import Call, build_path, build_query, call, drop_none, paged_call
from .calls import Calls
from .models import Template
from .readers import read_as, read_entity, read_object, read_page_of, read_positioned_event
from .records import Entity, Json, Page, PositionedEvent


class OperatorCalls(Calls):
    @call
    def get_page(self, collection: str, /, **filters: Any) -> Call[Page[Entity]]:
        """Returns one page of a list; `next` is None on the last page."""
        return Call("GET", build_path(collection), read_page_of(read_entity), params=filters)

    @paged_call
    def list_events(self, /, after: int | str = 0, **filters: Any) -> Call[Page[PositionedEvent]]:
        """Yields the events of the journal in order, after a position."""
        params = build_query(after=after, **filters)
        return Call("GET", build_path("events"), read_page_of(read_positioned_event), params=params)

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
    def store_template(
        self,
        template_id: str,
        plan: Mapping[str, Any],
        *,
        parameters: Mapping[str, Any] | None = None,
        description: str = "",
        is_new: bool = True,
        request_id: str | None = None,
    ) -> Call[Template]:
        """Stores the first version of a template, or the next one if it is not new."""
        body: Json = {"plan": plan, "parameters": parameters or {}, "description": description}
        path = build_path("templates") if is_new else build_path("templates", template_id, "versions")
        body |= {"id": template_id} if is_new else {}
        return Call("POST", path, read_as(Template), body=body, keyed=True, request_id=request_id)

    @call
    def validate_compensation(self, patch_id: str, plan: Mapping[str, Any]) -> Call[Json]:
        """Checks a compensation plan and stores nothing; raises `Invalid` with an error for each wrong field."""
        path = build_path("patches", patch_id, "compensation")
        return Call("PUT", path, read_object, body=plan, params={"dry_run": "true"})
