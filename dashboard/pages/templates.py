"""Plan templates: the list with a form for a new one, and one template with its versions and a form for the next."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from statecore.dashboard import permissions, rendering
from statecore.kernel.refusals import Invalid, NotFound, Refusal
from statecore.records import PlanTemplate, Schedule
from statecore.scheduling import templates as service

from .query_params import get_number, get_text

LIST, ONE = "dashboard/templates.html", "dashboard/template.html"
PAGE_SIZE, MAX_VERSIONS, MAX_SCHEDULES = 50, 20, 20
# What the form shows before anything is typed, which also explains the notation.
EXAMPLE_PLAN = {
    "phase": "PH-1",
    "workstreams": [{"id": "build", "tasks": [{"id": "make", "payload": {"branch": "${branch}"}}]}],
}
EXAMPLE_PARAMETERS = {"branch": {"type": "string", "default": "main"}}


@require_http_methods(["GET", "HEAD", "POST"])
def templates(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_plantemplate")
    if request.method != "POST":
        return rendering.render(request, LIST, _build_list(request))
    try:
        made = _store(request, request.POST.get("id", "").strip(), is_new=True)
    except Refusal as refusal:
        return rendering.render(request, LIST, {**_build_list(request), "refusal": refusal}, status=422)
    return HttpResponseRedirect(reverse("console:template", args=[made.template]))


@require_http_methods(["GET", "HEAD", "POST"])
def template(request: HttpRequest, template_id: str) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_plantemplate")
    found = _get(request, template_id)
    if request.method != "POST":
        return rendering.render(request, ONE, _build_one(request, found))
    try:
        _store(request, template_id, is_new=False)
    except Refusal as refusal:
        return rendering.render(request, ONE, {**_build_one(request, found), "refusal": refusal}, status=422)
    return HttpResponseRedirect(reverse("console:template", args=[template_id]))


def _store(request: HttpRequest, template_id: str, *, is_new: bool) -> PlanTemplate:
    permissions.require_writable()
    permissions.require_permission(request, "statecore.add_plantemplate")
    made = service.store(
        template_id,
        plan=_read_json(request, "plan"),
        parameters=_read_json(request, "parameters"),
        description=request.POST.get("description", "").strip(),
        actor=permissions.get_actor(request),
        is_new=is_new,
    )
    messages.success(request, f"Stored version {made.version} of {made.template}.", extra_tags="good")
    return made


def _read_json(request: HttpRequest, name: str) -> Any:
    try:
        return json.loads(request.POST.get(name, "").strip() or "{}")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Invalid({name: [f"is not JSON: {error.msg} in {where}."]}) from error
    except (ValueError, RecursionError) as error:
        raise Invalid({name: ["must be a JSON object."]}) from error


def _get(request: HttpRequest, template_id: str) -> PlanTemplate:
    version = get_number(request, "version")
    try:
        return service.get(template_id, version)
    except NotFound as refusal:
        raise Http404(str(refusal)) from refusal


def _build_list(request: HttpRequest) -> dict[str, Any]:
    names = PlanTemplate.objects.filter(template__gt=get_text(request, "after")).order_by("template")
    newest = list(names.values_list("template").annotate(newest=Max("pk"))[: PAGE_SIZE + 1])
    shown = list(PlanTemplate.objects.filter(pk__in=[pk for _name, pk in newest[:PAGE_SIZE]]).order_by("template"))
    example = {"plan": _format(EXAMPLE_PLAN), "parameters": _format(EXAMPLE_PARAMETERS)}
    return {
        "templates": shown,
        "more": newest[PAGE_SIZE - 1][0] if len(newest) > PAGE_SIZE else None,
        "is_first": not get_text(request, "after"),
        "may_add": permissions.may_write(request, "statecore.add_plantemplate"),
        "given": {**example, **request.POST.dict()},
    }


def _build_one(request: HttpRequest, found: PlanTemplate) -> dict[str, Any]:
    versions = PlanTemplate.objects.filter(template=found.template).order_by("-version")
    stored = {"description": found.description, "plan": _format(found.plan), "parameters": _format(found.parameters)}
    schedules = Schedule.objects.filter(template=found.template).order_by("pk")
    return {
        "template": found,
        "stored": stored,
        "versions": versions.only("version", "created_by", "created_at", "description")[:MAX_VERSIONS],
        "schedules": schedules[:MAX_SCHEDULES] if request.user.has_perm("statecore.view_schedule") else [],
        "may_add": permissions.may_write(request, "statecore.add_plantemplate"),
        "given": {**stored, **request.POST.dict()},
    }


def _format(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
