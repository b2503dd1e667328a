"""Holds: the list, one hold, placing and releasing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import Meta

from statecore.kernel.clock import now
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid
from statecore.records.hold import REASON_LENGTH, Status, with_status
from statecore.records.token import Scope
from statecore.scheduling import holds
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of
from .openapi.fields import ID, Schema, text
from .openapi.operation import SIZE, operation, query
from .openapi.schemas import HOLD, page_of
from .request import Request
from .request_body import As, Body, RequestBody
from .responses import json_response
from .views import ApiView

VIEW_HOLD = "statecore.view_hold"
STATUS = query("status", {"type": "string", "enum": list(Status.values)})
BEFORE = query("before", ID, "Return holds with a lower id.")
SCOPE: Schema = {"type": "string", "pattern": "^(everything|(phase|run|capability|tool):[^\\u0000]+)$"}
Reason = Annotated[str, As({**text(REASON_LENGTH), "minLength": 1})]


class Holds(ApiView):
    route = "holds/"
    read_permission = VIEW_HOLD
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        scope: Annotated[str, As(SCOPE)]
        reason: Reason
        expires_at: Annotated[datetime, Meta(tz=True)] | None = None

    @operation("List holds, newest first", {200: page_of(HOLD)}, params=[STATUS, BEFORE, SIZE], name="list_holds")
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        rows, size = with_status(_read_status(params.get_text("status")), now()), params.get_page_size()
        if before := params.get_text("before"):
            rows = rows.filter(pk__lt=_read_id(before))
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))

    @operation(
        "Hold work: no task within the scope is claimed until the hold ends",
        {201: HOLD},
        body=Fields,
        description="The scope is `everything`, `phase:ID`, `run:ID`, `capability:NAME` or `tool:NAME`. Running tasks "
        "continue and report. Without `expires_at` the hold lasts until it is released.",
        name="place_hold",
    )
    def post(self, request: Request) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def place(work: UnitOfWork | None) -> dict[str, Any]:
            fields = body.fields
            return holds.place(fields.scope, reason=fields.reason, actor=actor, expires_at=fields.expires_at).as_dict()

        return body.respond_once(actor, place, 201)


def _read_status(text: str) -> Status | None:
    if text and text not in Status.values:
        raise Invalid({"status": [f"must be one of {', '.join(Status.values)}."]})
    return Status(text) if text else None


def _read_id(text: str) -> str:
    if not is_valid_id(text):
        raise Invalid({"before": ["must be the id of a hold."]})
    return text


class Hold(ApiView):
    route = "holds/<str:hold_id>/"
    read_permission = VIEW_HOLD

    @operation("Read one hold", {200: HOLD}, name="get_hold")
    def get(self, request: Request, hold_id: str) -> HttpResponse:
        return json_response(holds.get(hold_id).as_dict())


class Release(ApiView):
    route = "holds/<str:hold_id>/release/"
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        reason: Reason

    @operation("Release a hold", {200: HOLD}, body=Fields, refusals=(409,), name="release_hold")
    def post(self, request: Request, hold_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def release(work: UnitOfWork | None) -> dict[str, Any]:
            return holds.release(hold_id, reason=body.fields.reason, actor=actor).as_dict()

        return body.respond_once(actor, release)
