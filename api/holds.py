"""Holds: the list, one hold, placing and releasing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from django.urls import path
from msgspec import Meta

from statecore.kernel.clock import now
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid
from statecore.records.hold import Status, with_status
from statecore.records.token import Scope
from statecore.scheduling import holds
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of, require_permission
from .query_params import RequestParams
from .request import Request
from .request_body import Body, RequestBody
from .responses import json_response
from .views import ApiView

VIEW_HOLD = "statecore.view_hold"


class Holds(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        scope: str
        reason: str
        expires_at: Annotated[datetime, Meta(tz=True)] | None = None

    def get(self, request: Request) -> HttpResponse:
        """List holds, newest first."""
        require_permission(request, VIEW_HOLD)
        params = RequestParams(request, "status", "before", "page_size")
        rows, size = with_status(_read_status(params.get_text("status")), now()), params.get_page_size()
        if before := params.get_text("before"):
            rows = rows.filter(pk__lt=_read_id(before))
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))

    def post(self, request: Request) -> HttpResponse:
        """Hold work within a scope until the hold expires or is released."""
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
    def get(self, request: Request, hold_id: str) -> HttpResponse:
        """Return one hold."""
        require_permission(request, VIEW_HOLD)
        return json_response(holds.get(hold_id).as_dict())


class Release(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        reason: str

    def post(self, request: Request, hold_id: str) -> HttpResponse:
        """End a hold."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def release(work: UnitOfWork | None) -> dict[str, Any]:
            return holds.release(hold_id, reason=body.fields.reason, actor=actor).as_dict()

        return body.respond_once(actor, release)


urlpatterns = [
    path("holds/", Holds.as_view(), name="holds"),
    path("holds/<str:hold_id>/", Hold.as_view(), name="hold"),
    path("holds/<str:hold_id>/release/", Release.as_view(), name="release-hold"),
]
