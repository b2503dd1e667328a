"""The permanent page of one event: what changed, by whom, why, and what it caused."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from statecore.dashboard import navigation, permissions, rendering
from statecore.dashboard.queries import history
from statecore.journal import Event, EventKind, proofs
from statecore.journal.archive import get_latest_archived_range
from statecore.kernel import registry
from statecore.kernel.clock import format_utc


@require_safe
def receipt(request: HttpRequest, event_id: str) -> HttpResponse:
    event = _get_event(request, event_id)
    flow = registry.flow(event.entity_type)
    after = Event.objects.filter(
        entity_type=event.entity_type, entity_id=event.entity_id, sequence=event.sequence + 1
    ).first()
    consequences, visible = history.list_consequences(event), permissions.visible_types(request)
    context = {
        "event": event.as_dict(),
        "caused": [each.as_dict() for each in consequences if each.entity_type in visible],
        "has_unseen": any(each.entity_type not in visible for each in consequences),
        "left_by": after.as_dict() if after else None,
        "flow": flow,
        "here_machine": flow.entity_type,
        "name": navigation.machine_name(flow),
    }
    return rendering.render(request, "dashboard/receipt.html", context)


@require_safe
def proof_file(request: HttpRequest, event_id: str) -> HttpResponse:
    """Downloads the proof of an event, which `statecore verify` checks without this server."""
    event = _get_event(request, event_id)
    permissions.require_permission(request, "statecore.view_event")
    try:
        proof = proofs.prove_event(event.event_id)
    except proofs.NotSigned:
        messages.warning(
            request, "This event has no signed proof yet. Try again in a few seconds.", extra_tags="careful"
        )
        return HttpResponseRedirect(reverse("console:receipt", args=[event.event_id]))
    response = JsonResponse(proof)
    response["Content-Disposition"] = f'attachment; filename="proof-{event.event_id}.json"'
    return response


def _get_event(request: HttpRequest, event_id: str) -> Event:
    event = history.find_event(event_id)
    if event is None or event.kind == EventKind.ACCOUNT:
        raise Http404(_not_found_text())
    permissions.require_action(request, registry.flow(event.entity_type), "view")
    return event


def _not_found_text() -> str:
    if (record := get_latest_archived_range()) is None:
        return "There is no event with this id."
    until = format_utc(record.until)
    return f"There is no event with this id here. Events up to {until} were archived; the latest file is {record.file}."
