"""Statistics, stuck entities and alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import Meta

from statecore.kernel.refusals import NotFound, PermissionDenied
from statecore.read_models import board, stuck
from statecore.records import Alert
from statecore.records.alert import NOTE_LENGTH, acknowledge, silence
from statecore.records.token import Scope
from statecore.transitions.unit_of_work import UnitOfWork

from ..access import VIEW_ALERT, actor_of, narrow_to_visible, reads_only, visible_types
from ..openapi.fields import ANY_OBJECT, TIME, nullable, text
from ..openapi.operation import CURSOR, POSITION, SIZE, operation, query
from ..openapi.schemas import COUNT, FLAG, NUMBER, STRING, array, by_name, component, list_entity_types, obj, page_of
from ..pages import BAD_CURSOR
from ..query_params import RequestParams
from ..request import Request
from ..request_body import As, Body, RequestBody
from ..responses import json_response
from ..views import ApiView
from .journal import ESTIMATE

CHANGE_ALERT = "statecore.change_alert"
ID_LIMIT = 2**63
_SHARES = {"transitions_per_minute": NUMBER, "failure_rate": NUMBER, "override_rate": NUMBER}
_HOLD = {"id": STRING, "scope": STRING, "reason": STRING, "created_by": STRING, "expires_at": nullable(TIME)}
INCIDENT_SUMMARY = {
    "id": COUNT,
    **dict.fromkeys(("severity", "rule", "cause"), STRING),
    "counts": by_name(COUNT),
    "runs": COUNT,
    "since": TIME,
    **dict.fromkeys(("owner", "acknowledged_by"), nullable(STRING)),
}
_INCIDENT_COUNTS = dict.fromkeys(("open", "critical", "unacknowledged", "snoozed"), COUNT)
STATS = component(
    "Stats",
    obj(
        {
            "epoch": COUNT,
            "position": COUNT,
            "counts": by_name(by_name(COUNT)),
            "rates": obj({"window_minutes": COUNT, **_SHARES, "machines": by_name(obj(_SHARES))}),
            "minutes": by_name(obj({"transitions": COUNT, "failures": COUNT, "overrides": COUNT})),
            "stuck": obj({"total": COUNT, "machines": by_name(COUNT), "waiting": by_name(COUNT), "listed": COUNT}),
            "progress": obj({"reported": COUNT, "percent": COUNT}),
            "trends": by_name(array(COUNT)),
            "today": by_name(by_name(COUNT)),
            "blocked_gates": array(obj({"id": STRING, "gate_type": STRING, "since": TIME})),
            "run_ends": array(ESTIMATE),
            "incidents": obj({**_INCIDENT_COUNTS, "worst": array(obj({**INCIDENT_SUMMARY, "impact": STRING}))}),
            "alerts": obj({"open": COUNT, "critical": COUNT, "unacknowledged": COUNT, "integrity": COUNT}),
            "holds": array(obj(_HOLD)),
        }
    ),
    "Counts, rates, and what needs attention.",
)
_ACKNOWLEDGED = {"acknowledged_by": nullable(STRING), "acknowledged_at": nullable(TIME)}
STUCK = component(
    "StuckEntity",
    obj(
        {
            "entity_type": STRING,
            "id": STRING,
            "state": STRING,
            "kind": STRING,
            "since": TIME,
            "why": STRING,
            "deadline_seconds": nullable(NUMBER),
            "overdue_seconds": NUMBER,
            "recovery": ANY_OBJECT,
            "incident": nullable(COUNT),
            **_ACKNOWLEDGED,
        }
    ),
    "An entity that is overdue or needs a decision.",
)
ALERT = component(
    "Alert",
    obj(
        {
            "id": COUNT,
            "rule": STRING,
            "key": STRING,
            "severity": STRING,
            "detail": STRING,
            "facts": ANY_OBJECT,
            "opened_at": TIME,
            "resolved_at": nullable(TIME),
            **_ACKNOWLEDGED,
            "note": nullable(STRING),
            "silenced_until": nullable(TIME),
            "silenced_by": nullable(STRING),
            "incident": nullable(COUNT),
        }
    ),
    "What an alert rule has found.",
)


class Stats(ApiView):
    route = "stats/"

    @operation("Read counts, rates, overdue entities, alerts and active holds", {200: STATS}, name="get_stats")
    def get(self, request: Request) -> HttpResponse:
        """Return counts per machine and state, rates, and the numbers of stuck entities and alerts.

        The cost does not grow with the number of entities.
        """
        self.params(request)
        return json_response(board.get_stats(visible_types(request)))


class Stuck(ApiView):
    route = "stuck/"

    @operation(
        "List entities that are overdue or need a decision",
        {200: page_of(STUCK)},
        params=[query("entity_type", {"type": "string", "enum": list_entity_types()}), CURSOR, SIZE],
        name="list_stuck",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
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
    route = "alerts/"
    read_permission = VIEW_ALERT

    @operation(
        "List alerts, newest first",
        {200: page_of(ALERT)},
        params=[
            query("open", FLAG),
            query("acknowledged", FLAG),
            query("before", POSITION, "Return alerts with a lower id."),
            SIZE,
        ],
        name="list_alerts",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        page = board.list_alerts(
            before=params.get_number("before"),
            limit=params.get_page_size(),
            is_open=params.get_flag("open"),
            acknowledged=params.get_flag("acknowledged"),
        )
        return json_response(params.build_page_newest_first(page.alerts, "id", more=page.more))


class Acknowledge(ApiView):
    route = "alerts/<int:alert_id>/acknowledge/"
    writes_need = (Scope.OPERATE,)

    class Note(Body):
        note: Annotated[str, As(text(NOTE_LENGTH))] = ""

    @operation(
        "Acknowledge an alert",
        {200: ALERT},
        body=Note,
        description="A later call changes nothing and returns the first acknowledgement.",
        name="acknowledge_alert",
    )
    def post(self, request: Request, alert_id: int) -> HttpResponse:
        body, actor = RequestBody(request, self.Note), actor_of(request)
        if not actor.has_permission(CHANGE_ALERT):
            raise PermissionDenied(f"{actor.name} may not acknowledge alerts", required=CHANGE_ALERT)

        def acknowledge_alert(work: UnitOfWork | None) -> dict[str, Any]:
            acknowledge(alert_id, actor.name, body.fields.note)
            return _get_alert(alert_id).as_dict()

        return body.respond_once(actor, acknowledge_alert)


class Silence(ApiView):
    route = "alerts/<int:alert_id>/silence/"
    writes_need = (Scope.OPERATE,)

    class Fields(Body):
        until: Annotated[datetime, Meta(tz=True)] | None

    @operation(
        "Keep an alert from sending notifications",
        {200: ALERT},
        body=Fields,
        description="Until then it sends none, also if it resolves and opens again; null ends that. Alerts about "
        "stored data that cannot be trusted are not silenced.",
        name="silence_alert",
    )
    def post(self, request: Request, alert_id: int) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        if not actor.has_permission(CHANGE_ALERT):
            raise PermissionDenied(f"{actor.name} may not silence alerts", required=CHANGE_ALERT)

        def silence_alert(work: UnitOfWork | None) -> dict[str, Any]:
            _get_alert(alert_id)
            silence(alert_id, actor.name, body.fields.until)
            return _get_alert(alert_id).as_dict()

        return body.respond_once(actor, silence_alert)


def _get_alert(alert_id: int) -> Alert:
    alert = Alert.objects.filter(pk=alert_id).first() if alert_id < ID_LIMIT else None
    if alert is None:
        raise NotFound(f"there is no alert {alert_id}")
    return alert
