"""The journal, searched: by entity, actor, channel, kind, severity and time; exported; verified."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.queries.bounded import TimedOut, in_time
from statecore import history, integrity
from statecore.journal import EventKind
from statecore.kernel.actors import Channel
from statecore.kernel.clock import now
from statecore.kernel.moves import Severity
from statecore.records import Seal
from statecore.records.retirement import latest

from .asked import moment, number, text

SIZE, EXPORTED_AT_ONCE = 50, 500
ASKED = ("machine", "entity", "actor", "channel", "kind", "severity", "run", "since", "until")


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    rights.require_permission(request, "statecore.view_event")
    asked, before = {name: text(request, name) for name in ASKED}, number(request, "before")
    context: dict[str, Any] = {
        "asked": asked,
        "machines": [(flow.entity_type, shell.name_of(flow)) for flow in rights.seen(request)],
        "channels": [*map(str, Channel)],
        "kinds": EventKind.values,
        "severities": [severity.value for severity in Severity],
        "query": urlencode({name: value for name, value in asked.items() if value}),
        "is_filtered": any(asked.values()),
        "is_first": before is None,
    }
    try:
        with in_time():
            page = history.page(_filters(request), before=before, limit=SIZE, newest_first=True)
    except TimedOut:
        return shell.render(request, "dashboard/audit.html", {**context, "timed_out": True})
    events = [{**each["event"], "position": each["position"]} for each in page.events]
    more = events[-1]["position"] if page.more else None
    record = None if page.more else latest()
    return shell.render(request, "dashboard/audit.html", {**context, "events": events, "more": more, "record": record})


@require_safe
def export(request: HttpRequest) -> StreamingHttpResponse:
    """A line of JSON for each event, oldest first, as they stand in the journal."""
    rights.require_permission(request, "statecore.view_event")
    portions = _portions(_filters(request))
    told = _one_by_one(portions) if isinstance(request, ASGIRequest) else portions
    response = StreamingHttpResponse(told, content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="events-{now():%Y%m%d-%H%M%S}.jsonl"'
    return response


def _portions(filters: history.Filters) -> Iterator[bytes]:
    """To the end, however long that takes: an export that stops early without a word is worse than a long one."""
    after, more = 0, True
    while more:
        page = history.page(filters, after=after, limit=EXPORTED_AT_ONCE)
        yield b"".join(orjson.dumps({"position": each["position"], **each["event"]}) + b"\n" for each in page.events)
        more = page.more
        after = page.events[-1]["position"] if page.events else after


async def _one_by_one(portions: Iterator[bytes]) -> AsyncIterator[bytes]:
    """So that a long export is sent as it is read, and the event loop does not wait for the database."""
    while portion := await sync_to_async(lambda: next(portions, b""))():
        yield portion


@require_safe
def verify(request: HttpRequest) -> HttpResponse:
    """What is recent, and every seal: all of it is `manage.py integrity`'s, which may take its time."""
    rights.require_permission(request, "statecore.view_event")
    findings = integrity.check_recent()
    context = {"findings": findings[:20], "last": Seal.objects.order_by("-pk").first(), "at": now()}
    return shell.render(request, "dashboard/parts/verified.html", context)


def _filters(request: HttpRequest) -> history.Filters:
    """Only machines this person may see, whatever the address says."""
    seen = [flow.entity_type for flow in rights.seen(request)]
    machine = text(request, "machine")
    return history.Filters(
        entity_type=[machine] if machine in seen else seen,
        entity=_one(text(request, "entity")),
        run=_one(text(request, "run")),
        actor=_one(text(request, "actor")),
        channel=[value for value in [text(request, "channel")] if value in [*map(str, Channel)]],
        kind=[value for value in [text(request, "kind")] if value in EventKind.values],
        severity=[value for value in [text(request, "severity")] if value in [*map(str, Severity)]],
        since=moment(request, "since"),
        until=moment(request, "until"),
    )


def _one(value: str) -> list[str]:
    return [value] if value else []
