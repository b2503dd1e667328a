"""Requests for approval: the list, one request, and the decision of a second person."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse

from statecore.kernel import registry
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid
from statecore.records.approval import COMMENT_LENGTH, Status, with_status
from statecore.records.token import Scope
from statecore.transitions import approvals

from . import entities
from .access import actor_of, narrow_to_caller, require_visible, visible_types
from .openapi.fields import ANY_OBJECT, ID, text
from .openapi.operation import SIZE, operation, query, repeatable
from .openapi.schemas import APPROVAL, CAUSED, EVENT, FLAG, list_entity_types, obj, page_of
from .request import Request
from .request_body import As, Body, RequestBody
from .responses import json_response, outcome_response
from .views import ApiView

LIST_PARAMS = [
    query("status", {"type": "string", "enum": list(Status.values)}),
    repeatable("entity_type", list_entity_types()),
    repeatable("entity"),
    query("before", ID, "Return requests with a lower id."),
    SIZE,
]
APPROVED = obj({"changed": FLAG, "event": EVENT, **CAUSED, "entity": ANY_OBJECT, "approval": APPROVAL})


class Approvals(ApiView):
    route = "approvals/"

    @operation(
        "List requests for approval, newest first", {200: page_of(APPROVAL)}, params=LIST_PARAMS, name="list_approvals"
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
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
    route = "approvals/<str:approval_id>/"

    @operation("Read a request for approval with its decision", {200: APPROVAL}, name="get_approval")
    def get(self, request: Request, approval_id: str) -> HttpResponse:
        visible_types(request)  # an account without a group does not learn which ids exist
        found = approvals.get(approval_id)
        require_visible(request, registry.flow(found.entity_type))
        return json_response(found.as_dict())


class Decision(ApiView):
    # The transition service checks the permission, because it records refused decisions.
    writes_need = (Scope.READ,)

    class Fields(Body):
        comment: Annotated[str, As(text(COMMENT_LENGTH))] = ""


class Approve(Decision):
    route = "approvals/<str:approval_id>/approve/"

    @operation(
        "Approve a request, which executes the override",
        {200: APPROVED},
        body=Decision.Fields,
        refusals=(409,),
        description="From another account than the request, with the permission to override the machine and, if the "
        "policy names a group, as a member of it. An entity that changed since the request is refused.",
        name="approve",
    )
    def post(self, request: Request, approval_id: str) -> HttpResponse:
        body = RequestBody(request, self.Fields)
        outcome = approvals.approve(approval_id, actor=actor_of(request), comment=body.fields.comment, request=body.key)
        approval, result = approvals.get(approval_id), outcome.as_dict()
        (entity,) = entities.with_links(registry.flow(approval.entity_type).model, [dict(result["entity"])])
        return outcome_response(outcome, {**result, "entity": entity, "approval": approval.as_dict()})


class Deny(Decision):
    route = "approvals/<str:approval_id>/deny/"

    @operation("Deny a request", {200: obj({"approval": APPROVAL})}, body=Decision.Fields, refusals=(409,), name="deny")
    def post(self, request: Request, approval_id: str) -> HttpResponse:
        body = RequestBody(request, self.Fields)
        outcome = approvals.deny(approval_id, actor=actor_of(request), comment=body.fields.comment, request=body.key)
        return outcome_response(outcome)
