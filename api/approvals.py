"""Requests for approval: the list, one request, and the decision of a second person."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import path

from statecore.kernel import registry
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid
from statecore.records.approval import Status, with_status
from statecore.records.token import Scope
from statecore.transitions import approvals

from . import entities
from .access import actor_of, narrow_to_caller, require_visible, visible_types
from .query_params import RequestParams
from .request import Request
from .request_body import Body, RequestBody
from .responses import json_response, outcome_response
from .views import ApiView


class Approvals(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List requests for approval, newest first."""
        params = RequestParams(request, "status", "entity_type", "entity", "before", "page_size")
        rows = with_status(_read_status(params.get_text("status")))
        if chosen := narrow_to_caller(request, params.get_texts("entity_type")):
            rows = rows.filter(entity_type__in=chosen)
        if ids := params.get_texts("entity"):
            rows = rows.filter(entity_id__in=ids)
        if before := params.get_text("before"):
            rows = rows.filter(pk__lt=_read_id(before))
        size = params.get_page_size()
        found = [each.as_dict() for each in rows.order_by("-pk")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "id", more=len(found) > size))


def _read_status(text: str) -> Status | None:
    if text and text not in Status.values:
        raise Invalid({"status": [f"must be one of {', '.join(Status.values)}."]})
    return Status(text) if text else None


def _read_id(text: str) -> str:
    if not is_valid_id(text):
        raise Invalid({"before": ["must be the id of a request for approval."]})
    return text


class Approval(ApiView):
    def get(self, request: Request, approval_id: str) -> HttpResponse:
        """Return one request with its decision."""
        visible_types(request)  # an account without a group does not learn which ids exist
        found = approvals.get(approval_id)
        require_visible(request, registry.flow(found.entity_type))
        return json_response(found.as_dict())


class Decision(ApiView):
    # The transition service checks the permission, because it records refused decisions.
    writes_need = (Scope.READ,)

    class Fields(Body):
        comment: str = ""


class Approve(Decision):
    def post(self, request: Request, approval_id: str) -> HttpResponse:
        """Execute the override as requested."""
        body = RequestBody(request, self.Fields)
        outcome = approvals.approve(approval_id, actor=actor_of(request), comment=body.fields.comment, request=body.key)
        approval, result = approvals.get(approval_id), outcome.as_dict()
        (entity,) = entities.with_links(registry.flow(approval.entity_type).model, [dict(result["entity"])])
        return outcome_response(outcome, {**result, "entity": entity, "approval": approval.as_dict()})


class Deny(Decision):
    def post(self, request: Request, approval_id: str) -> HttpResponse:
        """Refuse the override; the entity does not change."""
        body = RequestBody(request, self.Fields)
        outcome = approvals.deny(approval_id, actor=actor_of(request), comment=body.fields.comment, request=body.key)
        return outcome_response(outcome)


urlpatterns = [
    path("approvals/", Approvals.as_view(), name="approvals"),
    path("approvals/<str:approval_id>/", Approval.as_view(), name="approval"),
    path("approvals/<str:approval_id>/approve/", Approve.as_view(), name="approve"),
    path("approvals/<str:approval_id>/deny/", Deny.as_view(), name="deny"),
]
