"""The page of one machine: its diagram with live counts, and a searchable, paged list of its entities."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from statecore.dashboard import navigation, permissions, rendering
from statecore.dashboard.diagram import machine_drawing
from statecore.dashboard.queries import counts, entities, lookup, search
from statecore.dashboard.queries.time_limit import TimedOut
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.machines.run import Run

from . import trends
from .lookup import get_machine
from .query_params import get_text


@require_safe
def machine(request: HttpRequest, collection: str) -> HttpResponse:
    flow = get_machine(request, collection)
    # Read first: events after this position arrive over the socket.
    position = head()
    spread = counts.get_distribution(flow, counts.count_states(flow.entity_type))
    context = _search_context(request, flow, spread)
    if rendering.is_fragment(request) and get_text(request, "part") == "filters":
        return rendering.render(request, "dashboard/parts/filters.html", context)
    context |= _list_context(request, flow, context["search"])
    if rendering.is_fragment(request):
        return rendering.render(request, "dashboard/parts/refresh.html", context)
    context |= {**_page_context(request, flow, context["search"], spread), "position": position}
    return rendering.render(request, "dashboard/machine.html", context)


def _search_context(request: HttpRequest, flow: Flow, spread: counts.Distribution) -> dict[str, Any]:
    typed = get_text(request, "q")
    parsed = search.parse(typed, flow, now())
    return {
        "flow": flow,
        "search": parsed,
        "q": typed,
        "name": navigation.machine_name(flow),
        "all_url": reverse("console:machine", args=[flow.collection]),
        "chips": _chips(flow, parsed, spread),
    }


def _list_context(request: HttpRequest, flow: Flow, parsed: search.Search) -> dict[str, Any]:
    typed, after, order = parsed.text, get_text(request, "after")[:120], get_text(request, "order")
    context: dict[str, Any] = {
        "may_operate": permissions.is_allowed(request.user, flow, "operate"),
        "is_first": not after,
        "parent_heading": entities.parent_heading(flow),
        "has_last_error": entities.has_last_error(flow),
        "has_progress": flow is Run.flow,
        "first": f"?{urlencode({'q': typed, 'order': order})}",
    }
    try:
        page = entities.list_page(flow, parsed, after=after, order=order)
    except TimedOut:
        return {**context, "timed_out": True}
    if not page.rows and not parsed.is_empty:
        visible = permissions.visible_machines(request.user)
        context["has_runs"] = "run" in search.list_qualifiers(flow)
        context["elsewhere"] = lookup.find_by_ids([each for each in visible if each is not flow], typed.split())
    more = f"?{urlencode({'q': typed, 'order': page.order, 'after': page.next})}" if page.next else ""
    return {**context, "page": page, "more": more, "orders": _order_links(page, typed)}


def _order_links(page: entities.Page, typed: str) -> list[tuple[str, str, bool]]:
    return [(order, f"?{urlencode({'q': typed, 'order': order})}", order == page.order) for order in page.orders]


def _chips(flow: Flow, parsed: search.Search, spread: counts.Distribution) -> list[tuple[counts.Share, str, bool]]:
    shares = counts.count_search(flow, parsed, spread)
    return [(share, _state_url(flow, parsed, share.look.state), share.look.state in parsed.states) for share in shares]


def _state_url(flow: Flow, parsed: search.Search, state: str) -> str:
    """The same search, limited to one state."""
    query = urlencode({"q": search.replace_word(parsed.text, f"state:{state}")})
    return f"{reverse('console:machine', args=[flow.collection])}?{query}"


def _page_context(
    request: HttpRequest, flow: Flow, parsed: search.Search, spread: counts.Distribution
) -> dict[str, Any]:
    traffic = counts.get_traffic(flow)
    drawing = machine_drawing(
        flow,
        link=lambda state: _state_url(flow, parsed, state),
        counts={share.look.state: share.count or 0 for share in spread.shares},
        dwell=traffic.dwell,
        rates=traffic.rates,
        forced=traffic.forced,
    )
    chosen, kept = trends.read_choice(request), {"q": parsed.text} if parsed.text else {}
    return {
        "trends": trends.make_query(request, {"machine": flow.entity_type, **kept}),
        "trends_trigger": "load" if chosen else "toggle from:#trends once",
        "shows_trends": bool(chosen),
        "drawing": drawing,
        "spread": spread,
        "hints": search.list_hints(flow),
        "filter": parsed.event_filter(),
        "here_machine": flow.entity_type,
    }
