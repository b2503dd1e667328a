"""A run compared with another one: what was slower, what failed, what differs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from statecore.dashboard import rendering
from statecore.dashboard.queries import run_compare
from statecore.kernel.clock import now
from statecore.machines.run import Run

from .query_params import get_text
from .run import get_run


@require_safe
def compare(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    others = run_compare.list_others(run)
    wanted = get_text(request, "with")
    there = get_run(request, wanted) if wanted else next(iter(others), None)
    context = {
        "run": run,
        "flow": Run.flow,
        "here_machine": Run.flow.entity_type,
        "tab": "compare",
        "others": others,
        "there": there,
        "sections": [each for each in run_compare.compare(run, there, now()) if each.total] if there else [],
    }
    return rendering.render(request, "dashboard/run_compare.html", context)
