"""Pausing and resuming a run: its workstreams are paused and resumed together."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from statecore.dashboard import permissions, rendering
from statecore.kernel.refusals import Refusal
from statecore.machines.workstream import PAUSABLE, State, Workstream
from statecore.scheduling import pauses

from . import forms
from .run import get_run

PAGE = "dashboard/pause_run.html"


@require_http_methods(["GET", "HEAD", "POST"])
def pause(request: HttpRequest, run_id: str) -> HttpResponse:
    return _serve(request, run_id, "Pause")


@require_http_methods(["GET", "HEAD", "POST"])
def resume(request: HttpRequest, run_id: str) -> HttpResponse:
    return _serve(request, run_id, "Resume")


def _serve(request: HttpRequest, run_id: str, verb: str) -> HttpResponse:
    run, states = get_run(request, run_id), PAUSABLE if verb == "Pause" else {State.PAUSED}
    permissions.require_action(request, Workstream.flow, "operate")
    found = Workstream.objects.filter(run=run_id, state__in=sorted(states)).order_by("pk")
    context = {"run": run, "verb": verb, "workstreams": found, "count": found.count(), "given": request.POST.dict()}
    if request.method != "POST":
        return rendering.render(request, PAGE, context)
    given: dict[str, Any] = {"actor": permissions.get_actor(request), "reason": request.POST.get("reason", "")}
    try:
        if verb == "Pause":
            pauses.pause_run(run_id, until=forms.read_time(request.POST.get("until", "")), **given)
        else:
            pauses.resume_run(run_id, **given)
    except Refusal as refusal:
        return forms.render_refusal(request, PAGE, context, refusal)
    messages.success(request, f"{verb}d {run}.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:run", args=[run_id]))
