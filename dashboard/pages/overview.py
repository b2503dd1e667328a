"""The first page: where everything is, what needs a hand, how fast it moves, what happened last."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.queries import counts, feed, worries
from statecore import board
from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.records.position import head


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    position = head()
    if position == 0:
        return HttpResponseRedirect(reverse("console:start"))
    seen = [flow for flow in registry.flows() if rights.may(request.user, flow, "view")]
    told = board.stats([flow.entity_type for flow in seen])
    spread = [counts.distribution(flow, told["counts"][flow.entity_type]) for flow in sorted(seen, key=_importance)]
    context: dict[str, Any] = {
        "position": position,
        "machines": [(each, shell.name_of(each.flow)) for each in spread],
        "worries": [(figure, _leads_on(request, figure)) for figure in worries.figures(told)],
        "feed": feed.latest([flow.entity_type for flow in seen]),
        "looks": feed.all_looks(),
        "stats": told,
        "per_minute": told["rates"]["transitions_per_minute"],
        "here": "overview",
    }
    return shell.render(request, "dashboard/overview.html", context)


def _leads_on(request: HttpRequest, figure: worries.Figure) -> bool:
    """Whether its page opens for this person."""
    return not figure.takes or request.user.has_perm(figure.takes)


def _importance(flow: Flow) -> tuple[bool, int]:
    return not shell.neighbours(flow), shell.depth(flow)
