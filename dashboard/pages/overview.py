"""The first page: where everything is, what needs a hand, how fast it moves, what happened last."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.queries import counts, feed, worries
from statecore.kernel import registry
from statecore.records.position import head


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    position = head()
    if position == 0:
        return HttpResponseRedirect(reverse("console:start"))
    numbers, seen = counts.state_counts(), [f for f in registry.flows() if rights.may(request.user, f, "view")]
    spread = [counts.distribution(flow, numbers.get(flow.entity_type, {})) for flow in sorted(seen, key=_importance)]
    minutes = counts.per_minute()
    context: dict[str, Any] = {
        "position": position,
        "machines": [(each, shell.name_of(each.flow)) for each in spread],
        "worries": worries.figures(request.user, numbers),
        "feed": feed.latest([flow.entity_type for flow in seen]),
        "looks": feed.all_looks(),
        "rates": {
            "minutes": [int(minute.at.timestamp()) for minute in minutes],
            "moves": [minute.moves for minute in minutes],
            "failures": [minute.failures for minute in minutes],
        },
        "last_minute": minutes[-2].moves if len(minutes) > 1 else 0,
        "here": "overview",
    }
    return shell.render(request, "dashboard/overview.html", context)


def _importance(flow: Any) -> tuple[bool, int]:
    return not shell.neighbours(flow), shell.depth(flow)
