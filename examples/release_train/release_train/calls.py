"""The REST call `GET /api/v1/timetable/`."""

from __future__ import annotations

from statecore.framework.rest import ApiView, HttpResponse, Request, array, json_response, obj, operation

from .models import State, Train

TEXT = {"type": "string"}
TIMETABLE = obj({"trains": array(obj({"id": TEXT, "state": TEXT, "departs_at": {**TEXT, "format": "date-time"}}))})


class Timetable(ApiView):
    route = "timetable/"
    flow = Train.flow

    @operation("List the trains that have not departed, the next one first", {200: TIMETABLE})
    def get(self, request: Request) -> HttpResponse:
        waiting = Train.objects.filter(state__in=(State.BOARDING, State.LOADED)).order_by("departs_at")
        return json_response({"trains": list(waiting.values("id", "state", "departs_at")[:100])})
