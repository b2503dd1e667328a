"""Every force: before, after, what was bypassed, what followed, whether it held; which edges are forced too often."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.queries.history import followed
from statecore import history
from statecore.records import AuditNote, TransitionCount
from statecore.records.audit_note import Kind
from statecore.records.retirement import latest

from .asked import number

SIZE, SAMPLE, REFUSED = 50, 500, 20


@require_safe
def overrides(request: HttpRequest) -> HttpResponse:
    rights.require_permission(request, "statecore.view_event")
    seen = [flow.entity_type for flow in rights.seen(request)]
    before = number(request, "before")
    page = history.forced(before=before, limit=SIZE, entity_type=seen)
    cascades = followed(page.events, seen)
    context: dict[str, Any] = {
        "events": [{**event, "followed": cascades[event["event_id"]]} for event in page.events],
        "more": page.events[-1]["position"] if page.more else None,
        "is_first": before is None,
        "record": None if page.more else latest(),
        "edges": _edges(seen) if before is None else [],
        "refused": _refused(seen) if before is None else [],
    }
    return shell.render(request, "dashboard/overrides.html", context)


def _refused(seen: list[str]) -> list[AuditNote]:
    notes = AuditNote.objects.filter(kind=Kind.OVERRIDE_REFUSED, entity_type__in=seen)
    return list(notes.order_by("-pk")[:REFUSED])


def _edges(seen: list[str]) -> list[tuple[str, str, str, int, int]]:
    """Of the last overrides, how many took each edge, and how many moves: what is often forced is a missing edge."""
    wanted = history.Filters(kind=["override"], entity_type=seen)
    events = [each["event"] for each in history.page(wanted, limit=SAMPLE, newest_first=True).events]
    counts = Counter((event["entity_type"], event["from_state"], event["to_state"]) for event in events)
    taken = TransitionCount.objects.filter(entity_type__in=seen).values_list(
        "entity_type", "from_state", "to_state", "count"
    )
    moves = {(machine, source, target): count for machine, source, target, count in taken}
    return [(*edge, count, max(count, moves.get(edge, 0))) for edge, count in counts.most_common(8)]
