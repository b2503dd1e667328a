"""How everything stands: numbers, what is stuck, alerts."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore import board, stuck
from statecore.kernel.refusals import NotFound, PermissionDenied
from statecore.records import Alert
from statecore.records.alert import acknowledge
from statecore.records.token import Scope

from .. import bodies, permissions
from ..actors import acting
from ..pages import BAD_CURSOR
from ..posted import Posted
from ..request import Request
from ..views import ApiView, answer
from .parameters import Parameters

MAY_ACKNOWLEDGE = "statecore.change_alert"
HIGHEST_ID = 2**63


class Stats(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Counts per machine and state, rates, what is stuck, alerts: one cheap call, however much there is."""
        Parameters(request)
        return answer(board.stats(permissions.sight(request)))


class Stuck(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """What is past its deadline or waits for a decision, longest first."""
        asked = Parameters(request, "entity_type", "cursor", "page_size")
        chosen, sight = asked.words("entity_type")[-1:], permissions.sight(request)
        permissions.narrowed_to(chosen, sight)
        after, size = _place(asked), asked.size()
        found = stuck.page(size, after=after, entity_type=chosen[0] if chosen else None, sight=sight)
        onward = asked.address(cursor=str(found.onward)) if found.onward else None
        return answer({"next": onward, "previous": None, "results": [item.as_dict() for item in found.items]})


def _place(asked: Parameters) -> stuck.Place | None:
    try:
        return stuck.Place.read(asked.given["cursor"][-1]) if "cursor" in asked.given else None
    except ValueError:
        raise NotFound(BAD_CURSOR) from None


class Alerts(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Alerts, newest first."""
        permissions.require_right(request, permissions.VIEW_ALERT)
        asked = Parameters(request, "open", "acknowledged", "before", "page_size")
        found = board.alerts(
            before=asked.number("before"),
            limit=asked.size(),
            is_open=asked.flag("open"),
            acknowledged=asked.flag("acknowledged"),
        )
        return answer(asked.backwards(found.alerts, "id", more=found.more))


class Acknowledge(ApiView):
    writes_need = Scope.OPERATE

    class Note(bodies.Body):
        note: str = ""

    def post(self, request: Request, alert_id: int) -> HttpResponse:
        """Take notice of an alert, as the first who does; whoever comes later is told who was first."""
        asked, actor = Posted(request, self.Note), acting(request)
        if not actor.holds(MAY_ACKNOWLEDGE):
            raise PermissionDenied(f"{actor.name} may not acknowledge alerts", required=MAY_ACKNOWLEDGE)

        def take_notice() -> dict[str, Any]:
            acknowledge(alert_id, actor.name, asked.said.note)
            return _found(alert_id).as_dict()

        return asked.once(actor, take_notice)


def _found(alert_id: int) -> Alert:
    alert = Alert.objects.filter(pk=alert_id).first() if alert_id < HIGHEST_ID else None
    if alert is None:
        raise NotFound(f"there is no alert {alert_id}")
    return alert
