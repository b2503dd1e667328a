"""Statistics, stuck entities and alerts."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore.kernel.refusals import NotFound, PermissionDenied
from statecore.read_models import board, stuck
from statecore.records import Alert
from statecore.records.alert import acknowledge
from statecore.records.token import Scope
from statecore.transitions.unit_of_work import UnitOfWork

from ..access import VIEW_ALERT, actor_of, narrow_to_visible, reads_only, require_permission, visible_types
from ..pages import BAD_CURSOR
from ..query_params import RequestParams
from ..request import Request
from ..request_body import Body, RequestBody
from ..responses import json_response
from ..views import ApiView

CHANGE_ALERT = "statecore.change_alert"
ID_LIMIT = 2**63


class Stats(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Return counts per machine and state, rates, and the numbers of stuck entities and alerts.

        The cost does not grow with the number of entities.
        """
        RequestParams(request)
        return json_response(board.get_stats(visible_types(request)))


class Stuck(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List entities that are overdue or need a decision, the longest waiting first, with the caller's actions."""
        params = RequestParams(request, "entity_type", "cursor", "page_size")
        chosen, visible = params.get_texts("entity_type")[-1:], visible_types(request)
        narrow_to_visible(chosen, visible)
        after, size = _read_cursor(params), params.get_page_size()
        page = stuck.read_page(size, after=after, entity_type=chosen[0] if chosen else None, visible=visible)
        following = params.build_url(cursor=str(page.next_cursor)) if page.next_cursor else None
        actor = None if reads_only(request) else actor_of(request)
        results = [stuck.serialize_item(item, actor) for item in page.items]
        return json_response({"next": following, "previous": None, "results": results})


def _read_cursor(params: RequestParams) -> stuck.ListCursor | None:
    try:
        return stuck.ListCursor.parse(params.given["cursor"][-1]) if "cursor" in params.given else None
    except ValueError:
        raise NotFound(BAD_CURSOR) from None


class Alerts(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """List alerts, newest first."""
        require_permission(request, VIEW_ALERT)
        params = RequestParams(request, "open", "acknowledged", "before", "page_size")
        page = board.list_alerts(
            before=params.get_number("before"),
            limit=params.get_page_size(),
            is_open=params.get_flag("open"),
            acknowledged=params.get_flag("acknowledged"),
        )
        return json_response(params.build_page_newest_first(page.alerts, "id", more=page.more))


class Acknowledge(ApiView):
    writes_need = (Scope.OPERATE,)

    class Note(Body):
        note: str = ""

    def post(self, request: Request, alert_id: int) -> HttpResponse:
        """Acknowledge an alert; a later call changes nothing and returns the first acknowledgement."""
        body, actor = RequestBody(request, self.Note), actor_of(request)
        if not actor.has_permission(CHANGE_ALERT):
            raise PermissionDenied(f"{actor.name} may not acknowledge alerts", required=CHANGE_ALERT)

        def acknowledge_alert(work: UnitOfWork | None) -> dict[str, Any]:
            acknowledge(alert_id, actor.name, body.fields.note)
            return _get_alert(alert_id).as_dict()

        return body.respond_once(actor, acknowledge_alert)


def _get_alert(alert_id: int) -> Alert:
    alert = Alert.objects.filter(pk=alert_id).first() if alert_id < ID_LIMIT else None
    if alert is None:
        raise NotFound(f"there is no alert {alert_id}")
    return alert
