"""The journal, searched: by entity, actor, channel, kind, severity and time; exported; verified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from statecore.dashboard import navigation, permissions, rendering
from statecore.dashboard.queries.time_limit import TimedOut, time_limit
from statecore.journal import ENTITY_KINDS, accounts, event_names
from statecore.journal.archive import get_latest_archived_range
from statecore.journal.checkpoints import latest_checkpoint
from statecore.journal.epochs import list_epochs
from statecore.journal.witnesses import list_witnesses
from statecore.kernel.actors import Channel
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.kernel.transition import Severity
from statecore.operations import integrity
from statecore.read_models import history

from .query_params import get_number, get_text, get_time

PAGE_SIZE, EXPORT_BATCH = 50, 500
FILTERS = (
    *("machine", "entity", "actor", "channel", "kind", "severity", "run", "from_state", "to_state", "event_name"),
    *("since", "until"),
)
FAILURES = "failures"  # errors and entered failure states, which an alert about failures counts and links to
SEVERITIES = [*map(str, Severity), FAILURES]


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_event")
    given, before = {name: get_text(request, name) for name in FILTERS}, get_number(request, "before")
    machines = permissions.require_visible_machines(request)
    context: dict[str, Any] = {
        "signed": latest_checkpoint(),
        "witnesses": list_witnesses(),
        "epochs": list_epochs(),
        "visible": [flow.entity_type for flow in machines],
        "given": given,
        "machines": [(flow.entity_type, navigation.machine_name(flow)) for flow in machines],
        "channels": [*map(str, Channel)],
        "kinds": ENTITY_KINDS,
        "severities": SEVERITIES,
        "event_names": event_names.list_names(),
        "states": sorted({state for flow in machines for state in flow.states}, key=str.lower),
        "query": urlencode({name: value for name, value in given.items() if value}),
        "is_filtered": any(given.values()),
        "is_first": before is None,
    }
    try:
        with time_limit():
            page = history.read_page(_read_filters(request), before=before, limit=PAGE_SIZE, newest_first=True)
    except TimedOut:
        return rendering.render(request, "dashboard/audit.html", {**context, "timed_out": True})
    events = [{**each["event"], "position": each["position"]} for each in page.events]
    more = events[-1]["position"] if page.more else None
    record = None if page.more else get_latest_archived_range()
    return rendering.render(
        request, "dashboard/audit.html", {**context, "events": events, "more": more, "record": record}
    )


@require_safe
def export(request: HttpRequest) -> StreamingHttpResponse:
    """All matching events as JSON lines, oldest first."""
    permissions.require_permission(request, "statecore.view_event")
    filters = _read_filters(request)
    given = {name: get_text(request, name) for name in FILTERS if get_text(request, name)}
    actor = permissions.get_actor(request)
    accounts.record(accounts.Action.EXPORTED, accounts.Account.of_actor(actor), actor=actor, facts=given)
    batches = _export_batches(filters)
    content = rendering.iterate_in_thread(batches) if isinstance(request, ASGIRequest) else batches
    response = StreamingHttpResponse(content, content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="events-{now():%Y%m%d-%H%M%S}.jsonl"'
    return response


def _export_batches(filters: history.Filters) -> Iterator[bytes]:
    """Without a time limit: a slow export is better than one that is silently cut short."""
    after, more = 0, True
    while more:
        page = history.read_page(filters, after=after, limit=EXPORT_BATCH)
        yield b"".join(orjson.dumps({"position": each["position"], **each["event"]}) + b"\n" for each in page.events)
        more = page.more
        after = page.events[-1]["position"] if page.events else after


@require_safe
def verify(request: HttpRequest) -> HttpResponse:
    """Fragment: verifies recent events and the newest checkpoint; `manage.py integrity` verifies everything."""
    permissions.require_permission(request, "statecore.view_event")
    findings = integrity.check_recent()
    context = {"findings": findings[:20], "last": latest_checkpoint(), "at": now()}
    return rendering.render(request, "dashboard/parts/verified.html", context)


def _read_filters(request: HttpRequest) -> history.Filters:
    """Limited to machines the user may see, whatever the URL names."""
    flows = permissions.require_visible_machines(request)
    visible, machine = [flow.entity_type for flow in flows], get_text(request, "machine")
    severity, name = get_text(request, "severity"), get_text(request, "event_name")
    return history.Filters(
        entity_type=[machine] if machine in visible else visible,
        entity=_as_list(get_text(request, "entity")),
        run=_as_list(get_text(request, "run")),
        actor=_as_list(get_text(request, "actor")),
        channel=[value for value in [get_text(request, "channel")] if value in [*map(str, Channel)]],
        kind=[value for value in [get_text(request, "kind")] if value in ENTITY_KINDS],
        severity=[value for value in severity.split(",") if value in [*map(str, Severity)]],
        failures=severity == FAILURES,
        from_state=_spellings(flows, get_text(request, "from_state")),
        to_state=_spellings(flows, get_text(request, "to_state")),
        event_name=[value for value in [name] if value in event_names.list_names()],
        since=get_time(request, "since"),
        until=get_time(request, "until"),
    )


def _spellings(flows: list[Flow], state: str) -> list[str]:
    """`failed` and `FAILED` for `failed`; a state that no machine has matches no event."""
    found = {each for flow in flows for each in flow.states if each.lower() == state.lower()}
    return sorted(found) or _as_list(state)


def _as_list(value: str) -> list[str]:
    return [value] if value else []
