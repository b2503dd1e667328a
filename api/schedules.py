"""Schedules with their occurrences."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import UNSET, Meta, UnsetType, structs

from statecore.records import Schedule as ScheduleRecord
from statecore.records import ScheduleOccurrence
from statecore.records.schedule import REASON_LENGTH, SCHEDULE_ID_LENGTH, CatchUp, Outcome, Overlap
from statecore.records.token import Scope
from statecore.scheduling import schedules
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of
from .openapi.fields import ANY_OBJECT, ID, TIME, Schema, nullable, text
from .openapi.operation import SIZE, operation, query
from .openapi.schemas import COUNT, FLAG, STRING, component, obj, page_of
from .request import Request
from .request_body import As, Body, RequestBody
from .responses import json_response
from .templates import AFTER
from .views import ApiView

VIEW_SCHEDULE = "statecore.view_schedule"
Time = Annotated[datetime, Meta(tz=True)]
OUTCOME: Schema = {"type": "string", "enum": list(Outcome.values)}
OCCURRENCE = component(
    "Occurrence",
    obj({
        "at": TIME, "outcome": OUTCOME, "run": nullable(STRING), "template_version": nullable(COUNT),
        "requested_by": nullable(STRING), "detail": nullable(STRING),
    }),
    "A time at which a schedule was due, and what followed.",
)  # fmt: skip
CATCH_UP: Schema = {
    "type": "string",
    "enum": list(CatchUp.values),
    "description": "What happens after an outage: all occurrences that were missed, only the latest, or none.",
}
OVERLAP: Schema = {
    "type": "string",
    "enum": list(Overlap.values),
    "description": "What happens while the run of an earlier occurrence has not ended.",
}
SCHEDULE = component(
    "Schedule",
    obj({
        "id": STRING, "template": STRING, "template_version": nullable(COUNT), "cron": STRING, "timezone": STRING,
        "parameters": ANY_OBJECT, "catch_up": CATCH_UP, "overlap": OVERLAP, "not_after": nullable(TIME),
        "paused": FLAG, "pause_reason": nullable(STRING), "paused_by": nullable(STRING),
        "next": {"type": "array", "items": TIME}, "last": {"anyOf": [OCCURRENCE, {"type": "null"}]},
        "created_by": STRING, "created_at": TIME,
    }),
    "A schedule that submits runs from a template; `next` has the next times.",
)  # fmt: skip
Id = Annotated[str, As(ID)]
Reason = Annotated[str, As({**text(REASON_LENGTH), "minLength": 1})]
Version = Annotated[int, As({"type": "integer", "minimum": 1, "maximum": 2**31 - 1})]
Cron = Annotated[str, As({**text(100), "description": "Minute, hour, day, month and weekday."})]
Timezone = Annotated[str, As({**text(64), "description": "Such as UTC or Europe/Berlin."})]
CatchUpName = Annotated[str, As(CATCH_UP)]
OverlapName = Annotated[str, As(OVERLAP)]


class Schedules(ApiView):
    route = "schedules/"
    read_permission = VIEW_SCHEDULE
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        template: Id
        cron: Cron
        id: Annotated[str, As({**ID, "maxLength": SCHEDULE_ID_LENGTH})] | None = None
        template_version: Version | None = None
        timezone: Timezone = "UTC"
        parameters: dict[str, Any] = {}
        catch_up: CatchUpName = "latest"
        overlap: OverlapName = "skip"
        not_after: Time | None = None

    @operation(
        "List schedules by id",
        {200: page_of(SCHEDULE)},
        params=[query("template", ID, "Only the schedules of this template."), AFTER, SIZE],
        name="list_schedules",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        rows, size = ScheduleRecord.objects.filter(pk__gt=params.get_text("after")), params.get_page_size()
        if template := params.get_text("template"):
            rows = rows.filter(template=template)
        found = [each.as_dict() for each in rows.order_by("pk")[: size + 1]]
        return json_response(params.build_page_by_id(found[:size], more=len(found) > size))

    @operation(
        "Create a schedule",
        {201: SCHEDULE},
        body=Fields,
        refusals=(409,),
        description="The runs are submitted by the system, each exactly once: its id is `SCHEDULE-TIME`.",
        name="create_schedule",
    )
    def post(self, request: Request) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def create(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.create(structs.asdict(body.fields), actor=actor).as_dict()

        return body.respond_once(actor, create, 201)


class Schedule(ApiView):
    route = "schedules/<str:schedule_id>/"
    read_permission = VIEW_SCHEDULE
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        template: Id | UnsetType = UNSET
        template_version: Version | UnsetType | None = UNSET
        cron: Cron | UnsetType = UNSET
        timezone: Timezone | UnsetType = UNSET
        parameters: dict[str, Any] | UnsetType = UNSET
        catch_up: CatchUpName | UnsetType = UNSET
        overlap: OverlapName | UnsetType = UNSET
        not_after: Time | UnsetType | None = UNSET

    @operation("Read one schedule with its next times", {200: SCHEDULE}, name="get_schedule")
    def get(self, request: Request, schedule_id: str) -> HttpResponse:
        return json_response(schedules.get(schedule_id).as_dict())

    @operation("Change a schedule", {200: SCHEDULE}, body=Fields, refusals=(409,), name="edit_schedule")
    def patch(self, request: Request, schedule_id: str) -> HttpResponse:
        given = RequestBody(request, self.Fields).fields.list_given()
        return json_response(schedules.change(schedule_id, given, actor=actor_of(request)).as_dict())


class Pause(ApiView):
    route = "schedules/<str:schedule_id>/pause/"
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        reason: Reason

    @operation("Pause a schedule", {200: SCHEDULE}, body=Fields, refusals=(409,), name="pause_schedule")
    def post(self, request: Request, schedule_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def pause(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.pause(schedule_id, reason=body.fields.reason, actor=actor).as_dict()

        return body.respond_once(actor, pause)


class Resume(ApiView):
    route = "schedules/<str:schedule_id>/resume/"
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        reason: Reason

    @operation(
        "Resume a schedule",
        {200: SCHEDULE},
        body=Fields,
        refusals=(409,),
        description="It continues with the next occurrence after now.",
        name="resume_schedule",
    )
    def post(self, request: Request, schedule_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def resume(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.resume(schedule_id, reason=body.fields.reason, actor=actor).as_dict()

        return body.respond_once(actor, resume)


class RunNow(ApiView):
    route = "schedules/<str:schedule_id>/run/"
    writes_need = (Scope.OPERATE,)

    @operation("Let a schedule occur now", {202: OCCURRENCE}, body=Body, refusals=(409,), name="run_schedule")
    def post(self, request: Request, schedule_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)

        def run(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.run_now(schedule_id, actor=actor).as_dict()

        return body.respond_once(actor, run, 202)


class Occurrences(ApiView):
    route = "schedules/<str:schedule_id>/occurrences/"
    read_permission = VIEW_SCHEDULE

    @operation(
        "List the occurrences of a schedule, newest first",
        {200: page_of(OCCURRENCE)},
        params=[query("outcome", OUTCOME), query("before", TIME, "Return earlier occurrences."), SIZE],
        name="list_occurrences",
    )
    def get(self, request: Request, schedule_id: str) -> HttpResponse:
        params = self.params(request)
        rows, size = ScheduleOccurrence.objects.filter(schedule=schedules.get(schedule_id)), params.get_page_size()
        if outcome := params.get_text("outcome"):
            rows = rows.filter(outcome=outcome)
        if before := params.get_time("before"):
            rows = rows.filter(at__lt=before)
        found = [each.as_dict() for each in rows.order_by("-at")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "at", more=len(found) > size))
