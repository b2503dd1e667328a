"""One machine: its diagram with live numbers, and its entities, searched and paged."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.diagram import machine_drawing
from dashboard.queries import counts, entities, search
from dashboard.queries.bounded import TimedOut
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.records.position import head

from .asked import text
from .found import machine_at


@require_safe
def machine(request: HttpRequest, collection: str) -> HttpResponse:
    flow = machine_at(request, collection)
    position = head()  # before anything else is read: what comes later is told live
    listed = _listed(request, flow)
    if shell.is_fragment(request):
        return shell.render(request, "dashboard/parts/entities.html", listed)
    return shell.render(
        request, "dashboard/machine.html", {**listed, **_surroundings(flow, listed), "position": position}
    )


def _listed(request: HttpRequest, flow: Flow) -> dict[str, Any]:
    typed = text(request, "q")
    asked = search.read(typed, flow, now())
    context: dict[str, Any] = {"flow": flow, "search": asked, "q": typed, "name": shell.name_of(flow)}
    context["may_operate"] = rights.may(request.user, flow, "operate")
    after, order = text(request, "after")[:120], text(request, "order")
    context["is_first"], context["first"] = not after, f"?{urlencode({'q': typed, 'order': order})}"
    try:
        page = entities.page(flow, asked, after=after, order=order)
    except TimedOut:
        return {**context, "timed_out": True}
    here = {"q": typed, "order": page.order}
    more = f"?{urlencode({**here, 'after': page.next})}" if page.next else ""
    return {**context, "page": page, "more": more, "orders": _orders(page, typed)}


def _orders(page: entities.Page, typed: str) -> list[tuple[str, str, bool]]:
    return [(order, f"?{urlencode({'q': typed, 'order': order})}", order == page.order) for order in page.orders]


def _surroundings(flow: Flow, listed: dict[str, Any]) -> dict[str, Any]:
    numbers = counts.state_counts(flow.entity_type)
    asked = listed["search"]
    traffic = counts.traffic(flow)
    address = reverse("console:machine", args=[flow.collection])

    def narrowed(state: str) -> str:
        return f"{address}?{urlencode({'q': search.with_word(asked.text, f'state:{state}')})}"

    drawing = machine_drawing(
        flow,
        link=narrowed,
        counts=numbers,
        dwell=traffic.dwell,
        rates=traffic.rates,
        forced=traffic.forced,
    )
    spread = counts.distribution(flow, numbers)
    chips = [(share, narrowed(share.look.state), share.look.state in asked.states) for share in spread.shares]
    return {
        "drawing": drawing,
        "spread": spread,
        "chips": chips,
        "all_url": address,
        "hints": search.hints(flow),
        "asked": asked.told_by_events(),
        "here_machine": flow.entity_type,
    }
