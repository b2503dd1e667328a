"""A run: the graph of its parts, who was when in which state, and a slider that replays it from the journal."""

from __future__ import annotations

from collections import Counter

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.queries import feed, runs
from statecore.machines.run import Run
from statecore.machines.task import FINAL, Task
from statecore.records.position import head
from statecore.records.retirement import anchors_of

from .asked import number


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    position = head()
    found = _found(request, run_id)
    drawn = runs.parts(found)
    tasks = Counter(node["state"] for node in drawn["nodes"] if node["type"] == Task.flow.entity_type)
    ended = sum(count for state, count in tasks.items() if state in FINAL)
    context = {
        "run": found,
        "flow": Run.flow,
        "drawn": drawn,
        "has_more": drawn["more"],
        "looks": feed.all_looks(),
        "ended": ended,
        "total": sum(tasks.values()),
        "position": position,
        "journal_url": reverse("console:run_journal", args=[found.pk]),
        "here_machine": Run.flow.entity_type,
        "retired": anchors_of(Run.flow.entity_type, found.pk).first(),
    }
    return shell.render(request, "dashboard/run.html", context)


@require_safe
def journal(request: HttpRequest, run_id: str) -> JsonResponse:
    events, has_more = runs.journal(_found(request, run_id), number(request, "after") or 0)
    return JsonResponse({"events": events, "more": has_more})


def _found(request: HttpRequest, run_id: str) -> Run:
    for flow in (Run.flow, *(part.flow for part in runs.PARTS)):  # it is drawn of all of them
        rights.require(request, flow, "view")
    found: Run | None = Run.objects.filter(pk=run_id).first()
    if found is None:
        raise Http404(f"there is no run {run_id}")
    return found
