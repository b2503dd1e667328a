"""The page of a run: the graph of its parts, their states over time, and a slider that replays the journal."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.queries import liveness, runs
from statecore.journal.archive import list_anchors
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import FINAL, Task
from statecore.machines.workstream import PAUSABLE, Workstream
from statecore.machines.workstream import State as WorkstreamState
from statecore.read_models import estimates

from .query_params import get_number

WORKING_SECONDS = 3


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    # Read first: events after this position arrive over the socket.
    position = head()
    found = get_run(request, run_id)
    counts = runs.count_parts(found)
    tasks = counts[Task.flow.entity_type]
    context = {
        "run": found,
        "flow": Run.flow,
        "tab": "graph",
        "part_count": sum(sum(by_state.values()) for by_state in counts.values()),
        "looks": runs.describe_states(),
        "ended": sum(count for state, count in tasks.items() if state in FINAL),
        "total": sum(tasks.values()),
        "position": position,
        "max_parts": runs.MAX_PARTS,
        "here_machine": Run.flow.entity_type,
        "archived": list_anchors(Run.flow.entity_type, found.pk).first(),
        **_list_working(found),
        "estimate": estimates.estimate_run(found),
        "pause": _find_pause(request, found),
    }
    return rendering.render(request, "dashboard/run.html", context)


def _find_pause(request: HttpRequest, run: Run) -> str:
    """The name of the page to pause or resume the run; empty if there is nothing to pause or the user may not."""
    if not permissions.is_allowed(request.user, Workstream.flow, "operate"):
        return ""
    states = set(Workstream.objects.filter(run=run.pk).values_list("state", flat=True).distinct())
    if WorkstreamState.PAUSED in states:
        return "resume_run"
    return "pause_run" if states & PAUSABLE else ""


@require_safe
def working(request: HttpRequest, run_id: str) -> HttpResponse:
    """Fragment: the tasks and gates that are worked on, with last contact and progress."""
    return rendering.render(request, "dashboard/parts/working.html", _list_working(get_run(request, run_id)))


def _list_working(run: Run) -> dict[str, Any]:
    """Read once in some seconds, however many viewers there are."""

    def read() -> dict[str, Any]:
        shown, count = liveness.list_working(run, now())
        return {"working": shown, "working_count": count}

    return dict(cache.get_or_set(f"console:working:{run.pk}", read, WORKING_SECONDS) or {})


@require_safe
def estimate(request: HttpRequest, run_id: str) -> HttpResponse:
    """Fragment: when the run will probably end; nothing once it has ended."""
    found = get_run(request, run_id)
    if Run.flow.is_final(found.state):
        return HttpResponse(status=204)
    return rendering.render(request, "dashboard/parts/estimate.html", {"estimate": estimates.estimate_run(found)})


@require_safe
@gzip_page  # a fifth of the bytes, and nothing in them repeats what the request has
def parts(request: HttpRequest, run_id: str) -> JsonResponse:
    return JsonResponse(runs.list_parts(get_run(request, run_id)))


@require_safe
@gzip_page
def journal(request: HttpRequest, run_id: str) -> JsonResponse:
    found = runs.read_journal(get_run(request, run_id), get_number(request, "after") or 0)
    return JsonResponse(runs.encode_journal(found))


def get_run(request: HttpRequest, run_id: str) -> Run:
    # The page shows entities of all these machines.
    for flow in (Run.flow, *(part.flow for part in runs.PARTS)):
        permissions.require_action(request, flow, "view")
    found: Run | None = Run.objects.filter(pk=run_id).first()
    if found is None:
        raise Http404(f"There is no run with the id {run_id}.")
    return found
