"""The overview: key figures, transition rates, state distribution of each machine, latest events."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from statecore.dashboard import navigation, permissions, rendering
from statecore.dashboard.queries import counts, feed, key_figures
from statecore.journal.position import head
from statecore.read_models import board

from . import trends

NAMED = 5  # of the incidents


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    # Read first: events after this position arrive over the socket.
    position = head()
    if position == 0:
        return HttpResponseRedirect(reverse("console:start"))
    visible = sorted(permissions.visible_machines(request.user), key=navigation.menu_order)
    entity_types = [flow.entity_type for flow in visible]
    stats = board.get_stats(entity_types)
    distributions = [counts.get_distribution(flow, stats["counts"][flow.entity_type]) for flow in visible]
    context: dict[str, Any] = {
        "position": position,
        "machines": [(each, navigation.machine_name(each.flow)) for each in distributions],
        "figures": [(figure, _is_linked(request, figure)) for figure in key_figures.list_figures(stats)],
        "feed": feed.list_latest(entity_types),
        "looks": feed.describe_states(),
        "stats": stats,
        "more_incidents": max(stats["incidents"]["open"] - NAMED, 0),
        "per_minute": stats["rates"]["transitions_per_minute"],
        "here": "overview",
        "trends": trends.make_query(request, {}),
    }
    return rendering.render(request, "dashboard/overview.html", context)


def _is_linked(request: HttpRequest, figure: key_figures.Figure) -> bool:
    """Whether the user may open the page that the figure counts."""
    return not figure.permission or request.user.has_perm(figure.permission)
