"""The REST call `GET /api/v1/timetable/`."""

from __future__ import annotations

from statecore.framework.rest import ApiView, HttpResponse, Request, json_response

from .models import State, Train


class Timetable(ApiView):
    flow = Train.flow

    def get(self, request: Request) -> HttpResponse:
        """List the trains that have not departed, the next one first."""
        waiting = Train.objects.filter(state__in=(State.BOARDING, State.LOADED)).order_by("departs_at")
        return json_response({"trains": list(waiting.values("id", "state", "departs_at")[:100])})
