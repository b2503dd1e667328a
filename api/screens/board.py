"""How everything stands: numbers, what is stuck, alerts."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from statecore import board, stuck
from statecore.kernel import registry

from ..views import ApiView, answer
from . import shapes
from .parameters import Parameters


class Stats(ApiView):
    @extend_schema(operation_id="stats", responses=shapes.STATS)
    def get(self, request: Request) -> HttpResponse:
        """Counts per machine and state, rates, what is stuck, alerts: one cheap call, however much there is."""
        Parameters(request)
        return answer(board.stats())


class Stuck(ApiView):
    @extend_schema(
        operation_id="stuck",
        parameters=[shapes.one_of("entity_type", None), shapes.page_size()],
        responses={200: shapes.page(shapes.STUCK), **shapes.INVALID, **shapes.NOT_FOUND},
    )
    def get(self, request: Request) -> HttpResponse:
        """What is past its deadline or waits for a decision, longest first: as many as fit on one page."""
        asked = Parameters(request, "entity_type", "page_size")
        kind = registry.flow(asked.word("entity_type")).entity_type if asked.word("entity_type") else None
        found = stuck.stuck(asked.size(), entity_type=kind)
        return answer({"next": None, "previous": None, "results": [item.as_dict() for item in found]})


class Alerts(ApiView):
    @extend_schema(
        operation_id="alerts",
        parameters=[
            shapes.flag("open", "only those that are, or are not, over"),
            shapes.flag("acknowledged", "only those that somebody has, or nobody has, taken notice of"),
            shapes.number("before", "alerts with a lower id"),
            shapes.page_size(),
        ],
        responses={200: shapes.page(shapes.ALERT), **shapes.INVALID},
    )
    def get(self, request: Request) -> HttpResponse:
        """Alerts, newest first."""
        asked = Parameters(request, "open", "acknowledged", "before", "page_size")
        found = board.alerts(
            before=asked.number("before"),
            limit=asked.size(),
            is_open=asked.flag("open"),
            acknowledged=asked.flag("acknowledged"),
        )
        onward = asked.address(before=found.alerts[-1]["id"]) if found.more else None
        return answer({"next": onward, "previous": None, "results": found.alerts})
