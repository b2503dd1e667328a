"""The tasks of a run as a table, with their attempts, times, workers and errors."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from statecore.dashboard import rendering
from statecore.dashboard.queries import run_tasks, runs
from statecore.dashboard.queries.time_limit import TimedOut
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.read_models.diagrams.tones import state_styles

from .query_params import get_text, get_time
from .run import get_run

HEADINGS = {"-attempts": "Attempts", "-started": "Started", "-wait": "Queue wait", "-duration": "Duration"}


@require_safe
def tasks(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    sort, text, state = (get_text(request, name) for name in ("sort", "find", "state"))
    sort = sort if sort in run_tasks.SORTS else "id"
    state = state if state in Task.flow.states else ""
    # Following pages measure until the same moment, so that the order of running tasks stays.
    at = get_time(request, "at") or now()
    after = get_text(request, "after")[:200]
    chosen = {"find": text, "state": state, "sort": sort}

    def link(**changes: str) -> str:
        return f"?{urlencode({name: value for name, value in {**chosen, **changes}.items() if value})}"

    counts = runs.count_parts(run)[Task.flow.entity_type]
    context = {
        "run": run,
        "flow": Run.flow,
        "here_machine": Run.flow.entity_type,
        "tab": "tasks",
        "find": text,
        "chosen": chosen,
        "sorts": [(title, link(sort=key), key == sort) for key, title in HEADINGS.items()],
        "by_id": (link(sort="id"), sort == "id"),
        "chips": [
            (look, counts[look.state], link(state="" if look.state == state else look.state), look.state == state)
            for look in state_styles(Task.flow.entity_type).values()
            if look.state in counts
        ],
        "first": link() if after else "",
    }
    try:
        page = run_tasks.list_tasks(run, at, sort=sort, states=[state] if state else [], text=text, after=after)
    except TimedOut:
        return rendering.render(request, "dashboard/run_tasks.html", {**context, "timed_out": True})
    more = link(after=page.next, at=at.isoformat()) if page.next else ""
    return rendering.render(request, "dashboard/run_tasks.html", {**context, "rows": page.rows, "more": more})
