"""Holds: those in effect with their countdown, a form for a new one, and the history."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from statecore.dashboard import permissions, rendering
from statecore.kernel.clock import now
from statecore.kernel.refusals import NotFound, Refusal
from statecore.records.hold import Hold, Kind, select_active
from statecore.scheduling import holds as service

from .query_params import get_text

PAGE = "dashboard/holds.html"
DURATIONS = {
    "15": "15 minutes", "60": "1 hour", "240": "4 hours", "1440": "1 day", "": "until released",
}  # fmt: skip
TARGETS = {Kind.PHASE: "Phase", Kind.RUN: "Run", Kind.CAPABILITY: "Capability", Kind.TOOL: "Tool"}
PAGE_SIZE = 50


@require_http_methods(["GET", "HEAD", "POST"])
def holds(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_hold")
    if request.method != "POST":
        return rendering.render(request, PAGE, _build_context(request))
    permissions.require_writable()
    permissions.require_permission(request, "statecore.add_hold")
    given, minutes = request.POST, request.POST.get("minutes", "")
    expires_at = now() + timedelta(minutes=int(minutes)) if minutes and minutes in DURATIONS else None
    scope = ":".join(part for part in (given.get("kind", ""), given.get("target", "").strip()) if part)
    try:
        hold = service.place(
            scope, reason=given.get("reason", ""), actor=permissions.get_actor(request), expires_at=expires_at
        )
    except Refusal as refusal:
        return rendering.render(request, PAGE, {**_build_context(request), "refusal": refusal}, status=422)
    messages.success(request, f"Holding {hold.scope}. Running tasks continue.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:holds"))


@require_POST
def release(request: HttpRequest, hold_id: str) -> HttpResponse:
    permissions.require_permission(request, "statecore.change_hold")
    permissions.require_writable()
    try:
        hold = service.release(hold_id, reason=request.POST.get("reason", ""), actor=permissions.get_actor(request))
    except NotFound as refusal:
        raise Http404(f"There is no hold with the id {hold_id}.") from refusal
    except Refusal as refusal:
        return rendering.render(request, PAGE, {**_build_context(request), "refusal": refusal}, status=422)
    messages.success(request, f"Released {hold.scope}. Its tasks can be claimed again.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:holds"))


def _build_context(request: HttpRequest) -> dict[str, Any]:
    before, active = get_text(request, "before"), list(select_active(now()))
    ended = Hold.objects.exclude(pk__in=[hold.pk for hold in active]).order_by("-pk")
    shown = list((ended.filter(pk__lt=before) if before else ended)[: PAGE_SIZE + 1])
    return {
        "active": active,
        "ended": shown[:PAGE_SIZE],
        "more": shown[PAGE_SIZE - 1].pk if len(shown) > PAGE_SIZE else None,
        "is_first": not before,
        "targets": TARGETS.items(),
        "durations": DURATIONS.items(),
        "given": {"kind": "everything", "target": "", "minutes": "60", "reason": "", **request.POST.dict()},
        "chosen": get_text(request, "run"),
        "may_place": permissions.may_write(request, "statecore.add_hold"),
        "may_release": permissions.may_write(request, "statecore.change_hold"),
    }
