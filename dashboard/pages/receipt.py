"""What was done, by whom, why, and what followed: the page a change ends on, which stays as long as the event does."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from dashboard.queries import history
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.clock import told
from statecore.records.retirement import latest


@require_safe
def receipt(request: HttpRequest, event_id: str) -> HttpResponse:
    event = history.by_id(event_id)
    if event is None:
        raise Http404(_where_it_may_be())
    flow = registry.flow(event.entity_type)
    rights.require(request, flow, "view")
    after = Event.objects.filter(
        entity_type=event.entity_type, entity_id=event.entity_id, sequence=event.sequence + 1
    ).first()
    followed, sight = history.cascade(event), rights.sight(request)
    context = {
        "event": event.as_dict(),
        "caused": [each.as_dict() for each in followed if each.entity_type in sight],
        "has_unseen": any(each.entity_type not in sight for each in followed),
        "left_by": after.as_dict() if after else None,
        "flow": flow,
        "here_machine": flow.entity_type,
        "name": shell.name_of(flow),
    }
    return shell.render(request, "dashboard/receipt.html", context)


def _where_it_may_be() -> str:
    if (record := latest()) is None:
        return "there is no such event"
    until = told(record.until)
    return f"There is no such event here. What happened up to {until} was retired to files, the last is {record.file}."
