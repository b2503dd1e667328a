"""Schedules: the list with a form for a new one, and one schedule with its next times, its history and its actions."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from statecore.dashboard import permissions, rendering
from statecore.kernel.refusals import Invalid, NotFound, Refusal
from statecore.records import PlanTemplate, Schedule, ScheduleOccurrence
from statecore.records.schedule import CatchUp, Overlap
from statecore.scheduling import schedules as service

from .query_params import get_number, get_text

LIST, ONE = "dashboard/schedules.html", "dashboard/schedule.html"
PAGE_SIZE = 50
TEXTS = ("template", "cron", "timezone", "catch_up", "overlap")
CATCH_UP = {
    CatchUp.LATEST: "Run the latest one", CatchUp.ALL: "Run all that were missed", CatchUp.NONE: "Run none",
}  # fmt: skip
OVERLAP = {Overlap.SKIP: "Skip the occurrence", Overlap.ALLOW: "Run beside it"}


@require_http_methods(["GET", "HEAD", "POST"])
def schedules(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_schedule")
    if request.method != "POST":
        return rendering.render(request, LIST, _build_list(request))
    permissions.require_writable()
    permissions.require_permission(request, "statecore.add_schedule")
    try:
        given = {"id": request.POST.get("id", "").strip() or None, **_read_fields(request)}
        made = service.create(given, actor=permissions.get_actor(request))
    except Refusal as refusal:
        return rendering.render(request, LIST, {**_build_list(request), "refusal": refusal}, status=422)
    messages.success(request, f"Created schedule {made.pk}.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:schedule", args=[made.pk]))


@require_http_methods(["GET", "HEAD", "POST"])
def schedule(request: HttpRequest, schedule_id: str) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_schedule")
    found = _get(schedule_id)
    if request.method != "POST":
        return rendering.render(request, ONE, _build_one(request, found))
    permissions.require_writable()
    permissions.require_permission(request, "statecore.change_schedule")
    try:
        service.change(schedule_id, _read_fields(request), actor=permissions.get_actor(request))
    except Refusal as refusal:
        return rendering.render(request, ONE, {**_build_one(request, found), "refusal": refusal}, status=422)
    messages.success(request, "Saved.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:schedule", args=[schedule_id]))


@require_POST
def act(request: HttpRequest, schedule_id: str, action: str) -> HttpResponse:
    """Pause, resume or run a schedule."""
    permissions.require_permission(request, "statecore.change_schedule")
    permissions.require_writable()
    found, actor, reason = _get(schedule_id), permissions.get_actor(request), request.POST.get("reason", "")
    try:
        if action == "run":
            service.run_now(schedule_id, actor=actor)
        elif action == "pause":
            service.pause(schedule_id, reason=reason, actor=actor)
        else:
            service.resume(schedule_id, reason=reason, actor=actor)
    except Refusal as refusal:
        return rendering.render(request, ONE, {**_build_one(request, found), "refusal": refusal}, status=422)
    done = {"run": "Its run starts within a few seconds.", "pause": "Paused.", "resume": "Resumed."}
    messages.success(request, done[action], extra_tags="good")
    return HttpResponseRedirect(reverse("console:schedule", args=[schedule_id]))


def _get(schedule_id: str) -> Schedule:
    try:
        return service.get(schedule_id)
    except NotFound as refusal:
        raise Http404(f"There is no schedule with the id {schedule_id}.") from refusal


def _read_fields(request: HttpRequest) -> dict[str, Any]:
    """Return the fields of the form; raises Invalid."""
    given = {name: request.POST.get(name, "").strip() for name in TEXTS}
    try:
        parameters = json.loads(request.POST.get("parameters", "").strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise Invalid({"parameters": ["must be a JSON object."]}) from error
    return {**given, "parameters": parameters, "not_after": _read_time(request.POST.get("not_after", "").strip())}


def _read_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise Invalid({"not_after": ["must be a time."]}) from error
    if moment is not None and moment.tzinfo is None:
        raise Invalid({"not_after": ["must have a time zone, such as 2026-11-18T02:00Z."]})
    return moment


def _build_list(request: HttpRequest) -> dict[str, Any]:
    after = get_text(request, "after")
    last = ScheduleOccurrence.objects.filter(schedule=OuterRef("pk")).order_by("-at")
    rows = Schedule.objects.order_by("pk").annotate(
        last_at=Subquery(last.values("at")[:1]), last_outcome=Subquery(last.values("outcome")[:1])
    )
    shown = list((rows.filter(pk__gt=after) if after else rows)[: PAGE_SIZE + 1])
    may_add = permissions.may_write(request, "statecore.add_schedule")
    return {
        "schedules": shown[:PAGE_SIZE],
        "more": shown[PAGE_SIZE - 1].pk if len(shown) > PAGE_SIZE else None,
        "is_first": not after,
        "may_add": may_add,
        "templates": _list_templates() if may_add else [],
        **_build_choices({"cron": "0 2 * * *", "timezone": "UTC", "parameters": "{}", **request.POST.dict()}),
    }


def _list_templates() -> list[str]:
    return list(PlanTemplate.objects.order_by("template").values_list("template", flat=True).distinct()[:500])


def _build_one(request: HttpRequest, found: Schedule) -> dict[str, Any]:
    before = get_number(request, "before")
    rows = found.occurrences.order_by("-pk")
    shown = list((rows if before is None else rows.filter(pk__lt=before))[: PAGE_SIZE + 1])
    kept = {name: getattr(found, name) for name in TEXTS} | {
        "parameters": json.dumps(found.parameters),
        "not_after": found.not_after.isoformat() if found.not_after else "",
    }
    may_change = permissions.may_write(request, "statecore.change_schedule")
    return {
        "schedule": found,
        "next_times": found.preview(),
        "occurrences": shown[:PAGE_SIZE],
        "more": shown[PAGE_SIZE - 1].pk if len(shown) > PAGE_SIZE else None,
        "is_first": before is None,
        "may_change": may_change,
        "templates": _list_templates() if may_change else [],
        **_build_choices({**kept, **request.POST.dict()}),
    }


def _build_choices(given: dict[str, Any]) -> dict[str, Any]:
    return {"given": given, "catch_ups": CATCH_UP.items(), "overlaps": OVERLAP.items()}
