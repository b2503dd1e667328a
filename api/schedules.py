"""Plan templates with their versions, and schedules with their occurrences."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.db.models import Max
from django.http import HttpResponse
from django.urls import path
from msgspec import UNSET, Meta, UnsetType, structs

from statecore.records import PlanTemplate, ScheduleOccurrence
from statecore.records import Schedule as ScheduleRecord
from statecore.records.token import Scope
from statecore.scheduling import schedules, templates
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of, require_permission
from .query_params import RequestParams
from .request import Request
from .request_body import Body, RequestBody
from .responses import json_response
from .views import ApiView

VIEW_TEMPLATE, VIEW_SCHEDULE = "statecore.view_plantemplate", "statecore.view_schedule"
Time = Annotated[datetime, Meta(tz=True)]


class Templates(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        id: str
        plan: dict[str, Any]
        parameters: dict[str, Any] = {}
        description: str = ""

    def get(self, request: Request) -> HttpResponse:
        """List the newest version of each template."""
        require_permission(request, VIEW_TEMPLATE)
        params = RequestParams(request, "after", "page_size")
        size = params.get_page_size()
        names = PlanTemplate.objects.filter(template__gt=params.get_text("after")).order_by("template")
        newest = list(names.values_list("template").annotate(newest=Max("pk"))[: size + 1])
        rows = PlanTemplate.objects.filter(pk__in=[pk for _name, pk in newest[:size]]).order_by("template")
        found = [each.as_dict() for each in rows]
        return json_response(params.build_page_by_id(found, more=len(newest) > size))

    def post(self, request: Request) -> HttpResponse:
        """Store the first version of a template."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def store(work: UnitOfWork | None) -> dict[str, Any]:
            given = body.fields
            return templates.store(
                given.id, plan=given.plan, parameters=given.parameters, description=given.description, actor=actor
            ).as_dict()

        return body.respond_once(actor, store, 201)


class Template(ApiView):
    def get(self, request: Request, template_id: str) -> HttpResponse:
        """Return a version of a template, the newest one by default."""
        require_permission(request, VIEW_TEMPLATE)
        version = RequestParams(request, "version").get_number("version")
        return json_response(templates.get(template_id, version).as_dict())


class TemplateVersions(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        plan: dict[str, Any]
        parameters: dict[str, Any] = {}
        description: str = ""

    def get(self, request: Request, template_id: str) -> HttpResponse:
        """List the versions of a template, newest first."""
        require_permission(request, VIEW_TEMPLATE)
        params = RequestParams(request, "before", "page_size")
        before, size = params.get_number("before"), params.get_page_size()
        templates.get(template_id)
        rows = PlanTemplate.objects.filter(template=template_id).order_by("-version")
        rows = rows if before is None else rows.filter(version__lt=min(before, 2**31 - 1))
        found = [each.as_dict() for each in rows[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "version", more=len(found) > size))

    def post(self, request: Request, template_id: str) -> HttpResponse:
        """Store the next version of a template."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def store(work: UnitOfWork | None) -> dict[str, Any]:
            given = structs.asdict(body.fields)
            return templates.store(template_id, **given, actor=actor, is_new=False).as_dict()

        return body.respond_once(actor, store, 201)


class Schedules(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        template: str
        cron: str
        id: str | None = None
        template_version: int | None = None
        timezone: str = "UTC"
        parameters: dict[str, Any] = {}
        catch_up: str = "latest"
        overlap: str = "skip"
        not_after: Time | None = None

    def get(self, request: Request) -> HttpResponse:
        """List schedules by id."""
        require_permission(request, VIEW_SCHEDULE)
        params = RequestParams(request, "template", "after", "page_size")
        rows, size = ScheduleRecord.objects.filter(pk__gt=params.get_text("after")), params.get_page_size()
        if template := params.get_text("template"):
            rows = rows.filter(template=template)
        found = [each.as_dict() for each in rows.order_by("pk")[: size + 1]]
        return json_response(params.build_page_by_id(found[:size], more=len(found) > size))

    def post(self, request: Request) -> HttpResponse:
        """Create a schedule."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def create(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.create(structs.asdict(body.fields), actor=actor).as_dict()

        return body.respond_once(actor, create, 201)


class Schedule(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        template: str | UnsetType = UNSET
        template_version: int | UnsetType | None = UNSET
        cron: str | UnsetType = UNSET
        timezone: str | UnsetType = UNSET
        parameters: dict[str, Any] | UnsetType = UNSET
        catch_up: str | UnsetType = UNSET
        overlap: str | UnsetType = UNSET
        not_after: Time | UnsetType | None = UNSET

    def get(self, request: Request, schedule_id: str) -> HttpResponse:
        """Return one schedule with its next times."""
        require_permission(request, VIEW_SCHEDULE)
        return json_response(schedules.get(schedule_id).as_dict())

    def patch(self, request: Request, schedule_id: str) -> HttpResponse:
        """Change a schedule."""
        given = RequestBody(request, self.Fields).fields.list_given()
        return json_response(schedules.change(schedule_id, given, actor=actor_of(request)).as_dict())


class Pause(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        reason: str

    def post(self, request: Request, schedule_id: str) -> HttpResponse:
        """Pause a schedule."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def pause(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.pause(schedule_id, reason=body.fields.reason, actor=actor).as_dict()

        return body.respond_once(actor, pause)


class Resume(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        reason: str

    def post(self, request: Request, schedule_id: str) -> HttpResponse:
        """Resume a schedule."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def resume(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.resume(schedule_id, reason=body.fields.reason, actor=actor).as_dict()

        return body.respond_once(actor, resume)


class RunNow(ApiView):
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        pass

    def post(self, request: Request, schedule_id: str) -> HttpResponse:
        """Let a schedule occur now."""
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def run(work: UnitOfWork | None) -> dict[str, Any]:
            return schedules.run_now(schedule_id, actor=actor).as_dict()

        return body.respond_once(actor, run, 202)


class Occurrences(ApiView):
    def get(self, request: Request, schedule_id: str) -> HttpResponse:
        """List the occurrences of a schedule, newest first."""
        require_permission(request, VIEW_SCHEDULE)
        params = RequestParams(request, "outcome", "before", "page_size")
        rows, size = ScheduleOccurrence.objects.filter(schedule=schedules.get(schedule_id)), params.get_page_size()
        if outcome := params.get_text("outcome"):
            rows = rows.filter(outcome=outcome)
        if before := params.get_time("before"):
            rows = rows.filter(at__lt=before)
        found = [each.as_dict() for each in rows.order_by("-at")[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "at", more=len(found) > size))


urlpatterns = [
    path("templates/", Templates.as_view(), name="templates"),
    path("templates/<str:template_id>/", Template.as_view(), name="template"),
    path("templates/<str:template_id>/versions/", TemplateVersions.as_view(), name="template-versions"),
    path("schedules/", Schedules.as_view(), name="schedules"),
    path("schedules/<str:schedule_id>/", Schedule.as_view(), name="schedule"),
    path("schedules/<str:schedule_id>/pause/", Pause.as_view(), name="pause-schedule"),
    path("schedules/<str:schedule_id>/resume/", Resume.as_view(), name="resume-schedule"),
    path("schedules/<str:schedule_id>/run/", RunNow.as_view(), name="run-schedule"),
    path("schedules/<str:schedule_id>/occurrences/", Occurrences.as_view(), name="occurrences"),
]
