"""Incidents: the list, one with its suggested actions, what hangs on it, its history, and what operators do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import Meta

from statecore.kernel.actors import NAME_LENGTH
from statecore.kernel.clock import now
from statecore.kernel.refusals import NotFound, PermissionDenied
from statecore.read_models import incidents, stuck
from statecore.records import Incident
from statecore.records import incident as record
from statecore.records.incident import CHANGE_PERMISSION, NOTE_LENGTH
from statecore.records.token import Scope
from statecore.transitions.unit_of_work import UnitOfWork

from ..access import actor_of, reads_only, visible_types
from ..openapi.fields import ANY_OBJECT, TIME, nullable, text
from ..openapi.operation import POSITION, SIZE, TEXT_PARAM, operation, query
from ..openapi.schemas import COUNT, FLAG, STRING, array, component, obj, page_of
from ..request import Request
from ..request_body import As, Body, RequestBody
from ..responses import json_response
from ..views import ApiView
from .board import INCIDENT_SUMMARY, STUCK

_TIMES = dict.fromkeys(("resolved_at", "acknowledged_at", "snoozed_until"), nullable(TIME))
_FIELDS = {
    **INCIDENT_SUMMARY,
    "version": COUNT,
    **dict.fromkeys(("entity_type", "entity_id"), nullable(STRING)),
    "opened_at": TIME,
    **_TIMES,
    "escalations": COUNT,
}
INCIDENT = component("Incident", obj(_FIELDS), "A root cause with what hangs on it.")
INCIDENT_WITH_ACTIONS = {"allOf": [INCIDENT, obj({"actions": array(ANY_OBJECT)})]}
ENTRY = component(
    "IncidentEntry",
    obj({"id": COUNT, "at": TIME, "actor": STRING, "action": STRING, "text": STRING}),
    "What happened to an incident.",
)
FILTERS = [
    *(query(name, FLAG) for name in ("open", "snoozed", "acknowledged")),
    *(query(name, TEXT_PARAM) for name in ("owner", "severity", "rule")),
]
Text = Annotated[str, As(text(NOTE_LENGTH))]


class Incidents(ApiView):
    route = "incidents/"

    @operation(
        "List incidents, newest first",
        {200: page_of(INCIDENT)},
        params=[*FILTERS, query("before", POSITION, "Return incidents with a lower id."), SIZE],
        description="An incident is a root cause with everything that hangs on it: `counts` has the number of stuck, "
        "blocked and undecided entities by machine, as far as the caller may see them, `runs` the number of runs.",
        name="list_incidents",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        wanted = incidents.IncidentFilter(
            is_open=params.get_flag("open"),
            is_snoozed=params.get_flag("snoozed"),
            is_acknowledged=params.get_flag("acknowledged"),
            owner=params.get_text("owner") or None,
            severity=params.get_text("severity") or None,
            rule=params.get_text("rule") or None,
        )
        visible, limit = visible_types(request), params.get_page_size()
        page = incidents.list_newest(wanted, before=params.get_number("before"), limit=limit, visible=visible)
        shown = [incidents.serialize_incident(each, visible) for each in page.incidents]
        return json_response(params.build_page_newest_first(shown, "id", more=page.more))


class OneIncident(ApiView):
    route = "incidents/<int:incident_id>/"

    @operation(
        "Read an incident",
        {200: INCIDENT_WITH_ACTIONS},
        description="`actions` are the suggested ones that the caller may take, the best one first; each has `action` "
        "(`retry`, `transition`, `waive` or `override`), `collection` and `id` as in its call.",
        name="get_incident",
    )
    def get(self, request: Request, incident_id: int) -> HttpResponse:
        self.params(request)
        return json_response(_serialize(request, _get(request, incident_id)))


class Entities(ApiView):
    route = "incidents/<int:incident_id>/entities/"

    @operation(
        "List the entities that hang on an incident, longest overdue first",
        {200: page_of(STUCK)},
        params=[query("after", POSITION, "Return the entities after this one, as in `next`."), SIZE],
        name="list_incident_entities",
    )
    def get(self, request: Request, incident_id: int) -> HttpResponse:
        params = self.params(request)
        incident, visible = _get(request, incident_id), visible_types(request)
        after, limit = params.get_number("after"), params.get_page_size()
        page = incidents.read_entities(incident, now(), after=after, limit=limit, visible=visible)
        actor = None if reads_only(request) else actor_of(request)
        following = params.build_url(after=page.next_after) if page.next_after else None
        results = [stuck.serialize_item(item, actor) for item in page.items]
        return json_response({"next": following, "previous": None, "results": results})


class History(ApiView):
    route = "incidents/<int:incident_id>/history/"

    @operation(
        "List what happened to an incident, newest first",
        {200: page_of(ENTRY)},
        params=[query("before", POSITION, "Return entries with a lower id."), SIZE],
        name="list_incident_history",
    )
    def get(self, request: Request, incident_id: int) -> HttpResponse:
        params = self.params(request)
        rows, limit = _get(request, incident_id).history.order_by("-pk"), params.get_page_size()
        if before := params.get_number("before"):
            rows = rows.filter(pk__lt=before)
        found = [{"id": each.pk, **each.as_dict()} for each in rows[: limit + 1]]
        return json_response(params.build_page_newest_first(found[:limit], "id", more=len(found) > limit))


class Fields(Body):
    """`expected_version` refuses an action that was decided on an older state."""

    note: Text = ""
    expected_version: int | None = None


class Acknowledge(ApiView):
    route = "incidents/<int:incident_id>/acknowledge/"
    writes_need = (Scope.OPERATE,)

    @operation(
        "Acknowledge an incident",
        {200: INCIDENT_WITH_ACTIONS},
        body=Fields,
        refusals=(409,),
        name="acknowledge_incident",
    )
    def post(self, request: Request, incident_id: int) -> HttpResponse:
        return _change(
            request,
            incident_id,
            Fields,
            lambda name, given: record.acknowledge(incident_id, name, note=given.note, version=given.expected_version),
        )


class Assign(ApiView):
    route = "incidents/<int:incident_id>/assign/"
    writes_need = (Scope.OPERATE,)

    class Fields(Fields, kw_only=True):
        owner: Annotated[str, As(text(NAME_LENGTH))]

    @operation(
        "Assign an incident",
        {200: INCIDENT_WITH_ACTIONS},
        body=Fields,
        refusals=(409,),
        description="The owner is an active account; an empty name removes it.",
        name="assign_incident",
    )
    def post(self, request: Request, incident_id: int) -> HttpResponse:
        return _change(
            request,
            incident_id,
            self.Fields,
            lambda name, given: record.assign(
                incident_id, name, given.owner, note=given.note, version=given.expected_version
            ),
        )


class Snooze(ApiView):
    route = "incidents/<int:incident_id>/snooze/"
    writes_need = (Scope.OPERATE,)

    class Fields(Fields, kw_only=True):
        until: Annotated[datetime, Meta(tz=True)] | None

    @operation(
        "Snooze an incident",
        {200: INCIDENT_WITH_ACTIONS},
        body=Fields,
        refusals=(409,),
        description="Until then it is neither listed as open nor escalated; null ends that.",
        name="snooze_incident",
    )
    def post(self, request: Request, incident_id: int) -> HttpResponse:
        return _change(
            request,
            incident_id,
            self.Fields,
            lambda name, given: record.snooze(
                incident_id, name, given.until, note=given.note, version=given.expected_version
            ),
        )


class Note(ApiView):
    route = "incidents/<int:incident_id>/notes/"
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        note: Text
        expected_version: int | None = None

    @operation(
        "Add a note to an incident", {200: INCIDENT_WITH_ACTIONS}, body=Fields, refusals=(409,), name="note_incident"
    )
    def post(self, request: Request, incident_id: int) -> HttpResponse:
        return _change(
            request,
            incident_id,
            self.Fields,
            lambda name, given: record.annotate(incident_id, name, given.note, version=given.expected_version),
        )


def _change(
    request: Request, incident_id: int, shape: type[Any], apply: Callable[[str, Any], Incident]
) -> HttpResponse:
    body, actor = RequestBody(request, shape), actor_of(request)
    if not actor.has_permission(CHANGE_PERMISSION):
        raise PermissionDenied(f"{actor.name} may not change incidents", required=CHANGE_PERMISSION)
    _get(request, incident_id)

    def change(work: UnitOfWork | None) -> dict[str, Any]:
        return _serialize(request, apply(actor.name, body.fields))

    return body.respond_once(actor, change)


def _get(request: Request, incident_id: int) -> Incident:
    visible, found = visible_types(request), record.get(incident_id)
    if not incidents.is_shown(found, visible):
        raise NotFound(f"there is no incident {incident_id}")
    return found


def _serialize(request: Request, incident: Incident) -> dict[str, Any]:
    """Return an incident with what the caller may do about its cause."""
    actor, is_offered = actor_of(request), not reads_only(request) and incident.resolved_at is None
    allowed = incidents.allow_suggestions(incident.actions, actor.has_permission) if is_offered else []
    shown = incidents.serialize_incident(incident, visible_types(request))
    return {**shown, "actions": [each.as_dict() for each in allowed]}
