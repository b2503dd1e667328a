"""Forcing a state and waiving a gate, both of which may wait for a second person."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import Meta

from statecore import transitions
from statecore.kernel.refusals import Invalid
from statecore.records.token import Scope
from statecore.transitions import Category, Outcome
from statecore.transitions.override import CLEAR_RETRY_COUNT, protecting_policies

from .access import actor_of
from .machine_view import MachineView, of_flow, state_name
from .openapi import schemas
from .openapi.fields import TIME, Schema
from .openapi.operation import operation
from .request import Request
from .request_body import As, Body, RequestBody
from .responses import outcome_response

OverrideReason = Annotated[str, As({**schemas.REASON, "minLength": 10})]
CategoryName = Annotated[str, As({"type": "string", "enum": list(Category.values)})]
WAITING = schemas.obj({"approval": schemas.APPROVAL})


class VerifiedOutput(Body):
    """The result of a task that an operator has checked: its name, hash and size, which is not zero."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, Meta(ge=1, le=2**53 - 1)]


def describe_override(view: Any) -> Schema:
    """Return the schema of the body, with the states of the machine."""
    schema = schemas.body_schema(Override.Fields)
    return {**schema, "properties": {**schema["properties"], "to_state": state_name(view.flow)}}


class Override(MachineView):
    call = "<str:entity_id>/override/"
    # The transition service checks the permission, because it records refused overrides.
    writes_need, action, checks_permission_later = (Scope.READ,), "override", True

    class Fields(Body):
        to_state: str
        reason: OverrideReason
        category: CategoryName
        metadata: dict[str, Any] = {}
        expected_version: int | None = None
        dry_run: bool = False
        clear_retry_count: bool = False
        verified_output: VerifiedOutput | None = None

        def build_metadata(self) -> dict[str, Any]:
            """Return the metadata of the event, which has what was cleared and verified."""
            metadata = {**self.metadata, **({CLEAR_RETRY_COUNT: True} if self.clear_retry_count else {})}
            if (output := self.verified_output) is not None:
                metadata |= {"verified_output": output.name, "sha256": output.sha256, "bytes": output.bytes}
            return metadata

    @operation(
        "Override the state",
        {200: of_flow(schemas.result_ref), 202: WAITING},
        body=describe_override,
        refusals=(409,),
        description="If a policy requires a second person, nothing changes yet and the response is 202 with a request "
        "for approval, which another account decides with `approvals/{id}/approve/` or `deny/`. `clear_retry_count` "
        "gives a task all its retries back; `verified_output` records which result was checked.",
        name="override",
    )
    def post(self, request: Request, entity_id: str) -> HttpResponse:
        body: RequestBody[Any] = RequestBody(request, self.Fields)
        outcome = self.perform(request, entity_id, body)
        if "approval" in outcome.as_dict():
            return outcome_response(outcome, status=202)
        if body.fields.dry_run:
            return self._preview_response(outcome)
        return self.transition_response(outcome)

    def perform(self, request: Request, entity_id: str, body: RequestBody[Any]) -> Outcome:
        fields = body.fields
        return transitions.override(
            self.model,
            entity_id,
            fields.to_state,
            actor=actor_of(request),
            reason=fields.reason,
            category=fields.category,
            metadata=fields.build_metadata(),
            expected_version=fields.expected_version,
            request=body.key,
            dry_run=fields.dry_run,
        )

    def _preview_response(self, outcome: Outcome) -> HttpResponse:
        """Add the policies under which the override would wait for approval."""
        body = outcome.as_dict()
        policies = [str(policy) for policy in protecting_policies(outcome)]
        entity = self.with_links(dict(body["entity"]))
        return outcome_response(outcome, {**body, "entity": entity, "policies": policies})


class Waive(Override):
    """Waive a gate: what waits for it treats it as passed, until the waiver expires."""

    call = "<str:entity_id>/waive/"
    action = "waive"

    class Fields(Body):
        reason: OverrideReason
        category: CategoryName
        expires_at: Annotated[datetime, As(TIME)] | None = None
        expected_version: int | None = None
        dry_run: bool = False

    @operation(
        "Waive a gate",
        {200: of_flow(schemas.result_ref), 202: WAITING},
        body=Fields,
        refusals=(409,),
        description="The gate keeps its state; what waits for it treats it as passed until `expires_at`, or for good. "
        "Takes the permission to waive gates. If the policy `test_gate->waived`, or one that protects a state which "
        "follows, requires a second person, the response is 202 with a request for approval.",
        name="waive_gate",
    )
    def post(self, request: Request, entity_id: str) -> HttpResponse:
        return super().post(request, entity_id)

    def perform(self, request: Request, entity_id: str, body: RequestBody[Any]) -> Outcome:
        fields = body.fields
        require_zone(fields.expires_at)
        return transitions.waive(
            self.model,
            entity_id,
            actor=actor_of(request),
            reason=fields.reason,
            category=fields.category,
            expires_at=fields.expires_at,
            expected_version=fields.expected_version,
            request=body.key,
            dry_run=fields.dry_run,
        )


def require_zone(expires_at: datetime | None) -> None:
    if expires_at is not None and expires_at.tzinfo is None:
        raise Invalid({"expires_at": ["must be a time with its zone, such as 2030-01-31T12:00:00Z."]})
