"""The calls that every machine has; the routes come from the registry, so a new machine needs no line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, cast

from django.http import HttpResponse
from django.urls import URLPattern, path

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.journal.archive import list_anchors
from statecore.kernel import registry
from statecore.kernel.entity import Entity, HeartbeatEntity
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Invalid
from statecore.machines.worker import Worker
from statecore.read_models import stuck
from statecore.transitions import Outcome
from statecore.transitions.entity_reader import read_entities
from statecore.transitions.unit_of_work import UnitOfWork

from . import entities, pages
from .access import actor_for_trigger, actor_of, agent_of, reads_only, visible_types
from .bulk import Bulk, BulkTransitions
from .claims import Attempt
from .heartbeat import COMMANDS, Progress
from .machine_view import Firing, MachineView, noun, of_flow, state_name
from .openapi import schemas
from .openapi.fields import TIME, nullable
from .openapi.operation import AFTER, SIZE, list_params, operation, query
from .overrides import Override, Waive
from .request import Request
from .request_body import As, Body, RequestBody, convert_body, read_body
from .responses import json_response

Reason = Annotated[str, As(schemas.REASON)]
TO_STATE = "Only the events that lead to one of these states."
RENEWED = schemas.obj(
    {"state": schemas.STRING, "attempt": schemas.COUNT, "lease_expires_at": nullable(TIME), "commands": COMMANDS}
)


class Collection(MachineView):
    # Creates an entity; some machines need more than a new row.
    create: ClassVar[Callable[..., Outcome]] = staticmethod(transitions.create)

    @operation(
        lambda view: f"List {view.flow.collection.replace('-', ' ')}",
        {200: of_flow(schemas.page_ref)},
        params=lambda view: list_params(view.model),
        name="list",
    )
    def get(self, request: Request) -> HttpResponse:
        def serialize(found: list[Entity]) -> list[dict[str, Any]]:
            return entities.serialize_many(self.model, found)

        return json_response(
            pages.paginate(request, self.model.objects.all(), serialize, pages.NEWEST_FIRST, read_entities)
        )

    @operation(
        lambda view: f"Create a new {noun(view)}",
        {201: of_flow(schemas.created_ref)},
        body=of_flow(schemas.creation_ref),
        refusals=(409,),
        name="create",
    )
    def post(self, request: Request) -> HttpResponse:
        body = RequestBody(request, Body, takes_more=True)
        fields = body.extra
        entity_id, reason = fields.pop("id", None), fields.pop("reason", "")
        given = {name: value for name, value in fields.items() if name.isidentifier()}
        if unknown := fields.keys() - given.keys() or fields.keys() & SERVICE_ARGUMENTS:
            raise Invalid({name: ["is not a field that can be set."] for name in sorted(unknown)})
        outcome = self.create(
            self.model, actor=actor_of(request), id=entity_id, reason=reason, request=body.key, **given
        )
        return self.created_response(outcome)


# Arguments of `transitions.create` beside the fields of an entity; callers cannot set them.
SERVICE_ARGUMENTS = {"actor", "model", "cause", "request", "dry_run", "within", "replaces"}


class Workers(Collection):
    create = staticmethod(scheduling.register)

    @operation(
        "Register an idle worker",
        {201: of_flow(schemas.created_ref)},
        body=of_flow(schemas.creation_ref),
        refusals=(409,),
        name="create",
    )
    def post(self, request: Request) -> HttpResponse:
        return super().post(request)


class Patches(Collection):
    create = staticmethod(scheduling.submit_patch)

    @operation(
        "Submit a patch",
        {201: of_flow(schemas.created_ref)},
        body=of_flow(schemas.patch_schema),
        refusals=(409,),
        description="With `task` and the `attempt` that the agent holds, the patch belongs to the task's workstream, "
        "and the validation of the task waits for it. With `based_on`, a quarantined patch, it is its successor, and "
        "the quarantined one is dropped. Without either, `workstream` is required.",
        name="create",
    )
    def post(self, request: Request) -> HttpResponse:
        return super().post(request)


COLLECTIONS: dict[str, type[Collection]] = {"worker": Workers, "patch_ledger": Patches}


class Detail(MachineView):
    call = "<str:entity_id>/"

    @operation(lambda view: f"Read one {noun(view)}", {200: of_flow(schemas.entity_detail)}, name="get")
    def get(self, request: Request, entity_id: str) -> HttpResponse:
        entity = entities.get_entity(self.model, entity_id)
        return json_response({**entities.serialize_many(self.model, [entity])[0], **entity.details()})

    @operation(
        lambda view: f"Change fields of one {noun(view)}",
        {200: of_flow(schemas.entity_with_links)},
        body=of_flow(schemas.edit_ref),
        refusals=(409,),
        name="edit",
    )
    def patch(self, request: Request, entity_id: str) -> HttpResponse:
        fields = read_body(request)
        version = convert_body({"expected_version": fields.pop("expected_version", None)}, Expected).expected_version
        entity = transitions.edit(self.model, entity_id, fields, actor=actor_of(request), expected_version=version)
        return json_response(self.with_links(entity.as_dict()))


class Expected(Body):
    expected_version: int | None = None


class Transitions(MachineView):
    call = "<str:entity_id>/transitions/"
    fires = True

    @operation(
        "List the events of an entity, oldest first",
        {200: schemas.page_of(schemas.EVENT, archived=schemas.ARCHIVED)},
        params=lambda view: [
            query("to_state", {**schemas.array(state_name(view.flow)), "minItems": 1}, TO_STATE),
            AFTER,
            SIZE,
        ],
        name="list_history",
    )
    def get(self, request: Request, entity_id: str) -> HttpResponse:
        entities.get_entity(self.model, entity_id)
        events = Event.objects.filter(entity_type=self.flow.entity_type, entity_id=entity_id)
        found = pages.paginate_log(request, events, filters=("to_state",))
        return json_response({**found, "archived": self._archive_of(entity_id, found["results"])})

    def _archive_of(self, entity_id: str, events: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the archive that holds the events before these; None if there are none or none are archived."""
        if events and events[0]["sequence"] == 1:
            return None
        anchor = list_anchors(self.flow.entity_type, entity_id).first()
        return {"upto_sequence": anchor.sequence, **anchor.archived_range.as_dict()} if anchor else None

    @operation(
        "Fire a trigger",
        {200: of_flow(schemas.result_ref)},
        body=of_flow(schemas.trigger_ref),
        refusals=(409,),
        description="With `dry_run`, the response is what would change, and nothing changes.",
        name="fire",
    )
    def post(self, request: Request, entity_id: str) -> HttpResponse:
        body = RequestBody(request, Firing, takes_more=True)
        fields = body.fields
        outcome = transitions.transition(
            self.model,
            entity_id,
            fields.trigger,
            actor=actor_for_trigger(request, self.flow, fields.trigger),
            params=body.extra,
            reason=fields.reason,
            metadata=fields.metadata,
            expected_version=fields.expected_version,
            request=body.key,
            dry_run=fields.dry_run,
        )
        return self.transition_response(outcome)


class Explain(MachineView):
    call = "<str:entity_id>/explain/"

    @operation(
        "Explain the current state and what each transition requires", {200: schemas.EXPLANATION}, name="explain"
    )
    def get(self, request: Request, entity_id: str) -> HttpResponse:
        actor = None if reads_only(request) else actor_of(request)
        explanation = stuck.explain(self.model, entity_id, actor=actor, visible=visible_types(request))
        return json_response(explanation.as_dict())


class Retry(MachineView):
    call = "<str:entity_id>/retry/"

    class Fields(Body):
        reason: Reason = ""
        dry_run: bool = False

    @operation(
        "Create a successor of a final entity",
        {201: of_flow(schemas.created_ref)},
        body=Fields,
        refusals=(409,),
        description="With `dry_run`, the response is the successor that would be created, and nothing is created.",
        name="retry",
    )
    def post(self, request: Request, entity_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        fields, key = body.fields, body.key
        return self.created_response(
            transitions.retry(
                self.model, entity_id, actor=actor, reason=fields.reason, request=key, dry_run=fields.dry_run
            )
        )


class Renewal(MachineView):
    """Renew the lease of an entity that the caller holds, and optionally report progress."""

    call = "<str:entity_id>/heartbeat/"
    fires = True

    class Fields(Body):
        attempt: Attempt | None = None
        progress: Progress | None = None

    @operation(
        lambda view: f"Renew the lease of one {noun(view)}",
        {200: RENEWED},
        body=Fields,
        refusals=(409,),
        description="Only its holder renews it. Without another heartbeat, the holder loses it at `lease_expires_at`. "
        "A refusal with `lease_lost` means that it was lost: drop the work.",
        name="renew",
        is_written=True,
    )
    def post(self, request: Request, entity_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), agent_of(request)
        fields, model = body.fields, cast("type[HeartbeatEntity]", self.model)
        progress = None if fields.progress is None else fields.progress.as_dict()

        def respond(work: UnitOfWork | None) -> dict[str, Any]:
            return scheduling.renew(
                model, entity_id, actor=actor, attempt=fields.attempt, progress=progress, within=work
            )

        return body.respond_once(actor, respond)


BY_ENTITY = (Detail, Transitions, Explain, Override, Retry)


def routes(flows: Iterable[Flow] | None = None) -> list[URLPattern]:
    return [route for flow in (registry.flows() if flows is None else flows) for route in _routes_of(flow)]


def _routes_of(flow: Flow) -> list[URLPattern]:
    collection = COLLECTIONS.get(flow.entity_type, Collection)
    views: list[type[MachineView]] = [collection, Bulk, BulkTransitions, *BY_ENTITY]
    if flow.may_be_waived():
        views.append(Waive)
    if flow.renewed_in and flow is not Worker.flow:  # a worker's heartbeat also returns commands: api/heartbeat.py
        views.append(Renewal)
    return [path(f"{flow.collection}/{each.call}", each.as_view_for(flow=flow)) for each in views]
