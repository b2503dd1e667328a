"""The page of a run: the graph of its parts, their states over time, and a slider that replays the journal."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import permissions, rendering
from dashboard.queries import feed, runs
from statecore.journal.archive import list_anchors
from statecore.journal.position import head
from statecore.machines.run import Run
from statecore.machines.task import FINAL, Task

from .query_params import get_number


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    # Read first: events after this position arrive over the socket.
    position = head()
    found = _get_run(request, run_id)
    drawn = runs.list_parts(found)
    counts = runs.count_parts(found)
    tasks = counts[Task.flow.entity_type]
    context = {
        "run": found,
        "flow": Run.flow,
        "drawn": drawn,
        "part_count": sum(sum(by_state.values()) for by_state in counts.values()),
        "looks": feed.describe_states(),
        "ended": sum(count for state, count in tasks.items() if state in FINAL),
        "total": sum(tasks.values()),
        "position": position,
        "journal_url": reverse("console:run_journal", args=[found.pk]),
        "here_machine": Run.flow.entity_type,
        "archived": list_anchors(Run.flow.entity_type, found.pk).first(),
    }
    return rendering.render(request, "dashboard/run.html", context)


@require_safe
def journal(request: HttpRequest, run_id: str) -> JsonResponse:
    events, has_more = runs.list_events(_get_run(request, run_id), get_number(request, "after") or 0)
    return JsonResponse({"events": events, "more": has_more})


def _get_run(request: HttpRequest, run_id: str) -> Run:
    # The page shows entities of all these machines.
    for flow in (Run.flow, *(part.flow for part in runs.PARTS)):
        permissions.require_action(request, flow, "view")
    found: Run | None = Run.objects.filter(pk=run_id).first()
    if found is None:
        raise Http404(f"There is no run with the id {run_id}.")
    return found
