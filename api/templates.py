"""Plan templates with their versions."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import Max
from django.http import HttpResponse
from msgspec import structs

from statecore.records import PlanTemplate
from statecore.records.plan_template import DESCRIPTION_LENGTH
from statecore.records.token import Scope
from statecore.scheduling import templates
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of
from .openapi.fields import ID, TIME, Schema, text
from .openapi.operation import SIZE, operation, query
from .openapi.schemas import COUNT, STRING, component, obj, page_of
from .request import Request
from .request_body import As, Body, RequestBody
from .responses import json_response
from .views import ApiView

VIEW_TEMPLATE = "statecore.view_plantemplate"
PARAMETERS: Schema = {
    "type": "object",
    "description": "The declaration of each parameter by name.",
    "additionalProperties": obj(
        {
            "type": {"type": "string", "enum": list(templates.TYPES)},
            "default": {},
            "choices": {"type": "array", "items": {}},
            "description": STRING,
        },
        ["type"],
        closed=True,
    ),
}
PLAN: Schema = {
    "type": "object",
    "description": 'A plan without id and start. `{"$parameter": "NAME"}` becomes the value of a parameter and '
    "`${NAME}` within a text its text; `${run}` and `${scheduled_at}` are known in every template.",
    "examples": [{"phase": "phase-1", "workstreams": [{"id": "docs", "tasks": [{"id": "build"}]}]}],
}
TEMPLATE = component(
    "Template",
    obj({
        "id": STRING, "version": COUNT, "description": STRING, "parameters": PARAMETERS, "plan": PLAN,
        "created_by": STRING, "created_at": TIME,
    }),
    "A version of a plan template.",
)  # fmt: skip
VERSIONS: Schema = {"type": "integer", "minimum": 0, "maximum": 10**9}
AFTER = query("after", ID, "Return those with a higher id.")


class Version(Body):
    """The content of a version of a template."""

    plan: Annotated[dict[str, Any], As(PLAN)]
    parameters: Annotated[dict[str, Any], As(PARAMETERS)] = {}
    description: Annotated[str, As(text(DESCRIPTION_LENGTH))] = ""


class Templates(ApiView):
    route = "templates/"
    read_permission = VIEW_TEMPLATE
    writes_need = (Scope.OPERATE,)

    class Fields(Version, kw_only=True):
        id: Annotated[str, As(ID)]

    @operation(
        "List templates in their newest version", {200: page_of(TEMPLATE)}, params=[AFTER, SIZE], name="list_templates"
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        size = params.get_page_size()
        names = PlanTemplate.objects.filter(template__gt=params.get_text("after")).order_by("template")
        newest = list(names.values_list("template").annotate(newest=Max("pk"))[: size + 1])
        rows = PlanTemplate.objects.filter(pk__in=[pk for _name, pk in newest[:size]]).order_by("template")
        found = [each.as_dict() for each in rows]
        return json_response(params.build_page_by_id(found, more=len(newest) > size))

    @operation(
        "Store a plan template",
        {201: TEMPLATE},
        body=Fields,
        refusals=(409,),
        description="Ids of workstreams, tasks and gates are names within the plan: each run gets ids of its own.",
        name="store_template",
        is_written=True,
    )
    def post(self, request: Request) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def store(work: UnitOfWork | None) -> dict[str, Any]:
            given = body.fields
            return templates.store(
                given.id, plan=given.plan, parameters=given.parameters, description=given.description, actor=actor
            ).as_dict()

        return body.respond_once(actor, store, 201)


class Template(ApiView):
    route = "templates/<str:template_id>/"
    read_permission = VIEW_TEMPLATE

    @operation(
        "Read a version of a template",
        {200: TEMPLATE},
        params=[query("version", VERSIONS, "The newest one by default.")],
        name="get_template",
    )
    def get(self, request: Request, template_id: str) -> HttpResponse:
        version = self.params(request).get_number("version")
        return json_response(templates.get(template_id, version).as_dict())


class TemplateVersions(ApiView):
    route = "templates/<str:template_id>/versions/"
    read_permission = VIEW_TEMPLATE
    writes_need = (Scope.OPERATE,)

    @operation(
        "List the versions of a template, newest first",
        {200: page_of(TEMPLATE)},
        params=[query("before", VERSIONS, "Return lower versions."), SIZE],
        name="list_template_versions",
    )
    def get(self, request: Request, template_id: str) -> HttpResponse:
        params = self.params(request)
        before, size = params.get_number("before"), params.get_page_size()
        templates.get(template_id)
        rows = PlanTemplate.objects.filter(template=template_id).order_by("-version")
        rows = rows if before is None else rows.filter(version__lt=min(before, 2**31 - 1))
        found = [each.as_dict() for each in rows[: size + 1]]
        return json_response(params.build_page_newest_first(found[:size], "version", more=len(found) > size))

    @operation(
        "Store the next version of a template",
        {201: TEMPLATE},
        body=Version,
        refusals=(409,),
        name="store_template",
        is_written=True,
    )
    def post(self, request: Request, template_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Version), actor_of(request)

        def store(work: UnitOfWork | None) -> dict[str, Any]:
            given = structs.asdict(body.fields)
            return templates.store(template_id, **given, actor=actor, is_new=False).as_dict()

        return body.respond_once(actor, store, 201)
