"""Trends: throughput, failures, waits, durations and load of a period, and of the one before."""

from __future__ import annotations

from django.http import HttpResponse

from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.read_models import trends
from statecore.read_models.trends import Period, Scope

from ..access import narrow_to_visible, require_visible, visible_types
from ..openapi.fields import TIME, nullable
from ..openapi.operation import TEXT_PARAM, operation, query
from ..openapi.schemas import COUNT, NUMBER, STRING, array, component, list_entity_types, obj
from ..query_params import QueryParams
from ..request import Request
from ..responses import json_response
from ..views import ApiView

_VALUES = array(nullable(NUMBER))
_LINE = obj({"name": STRING, "tone": STRING, "values": _VALUES, "before": _VALUES})
_PANEL = obj(
    {
        **dict.fromkeys(("name", "title", "unit", "label"), STRING),
        "lines": array(_LINE),
        "total": nullable(NUMBER),
        "total_before": nullable(NUMBER),
    }
)
TRENDS = component(
    "Trends",
    obj({
        "since": TIME, "until": TIME, "step_seconds": COUNT, "recorded_since": nullable(TIME), "panels": array(_PANEL)
    }),
    "Throughput, failures, waits, durations and load of a period, and of the one before.",
)  # fmt: skip
DEFAULT_RANGE = "24h"


class Trends(ApiView):
    route = "trends/"

    @operation(
        "Read throughput, failures, waits, durations and load over time",
        {200: TRENDS},
        params=[
            query("entity_type", {"type": "string", "enum": list_entity_types()}),
            query("capability", TEXT_PARAM, "Only the tasks that require it and the workers that have it."),
            query("range", {"type": "string", "enum": [*trends.RANGES]}, f"{DEFAULT_RANGE} by default."),
            query("since", TIME, "With `until`, instead of a range."),
            query("until", TIME),
        ],
        description="Each line has a value for each step from `since`, and `before` those of the period of the same "
        "length before; null where nothing is known. `total` summarises the period. Numbers are read from roll-ups "
        "by minute (kept for 3 days), hour (100 days) and day.",
        name="get_trends",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        report = trends.build_report(_read_scope(request, params), _read_period(params))
        return json_response(report.as_dict())


def _read_scope(request: Request, params: QueryParams) -> Scope:
    entity_type, capability, visible = (
        params.get_text("entity_type"),
        params.get_text("capability"),
        visible_types(request),
    )
    if entity_type and capability:
        raise Invalid({"capability": ["cannot be combined with entity_type."]})
    if entity_type not in ("", *list_entity_types()):
        raise Invalid({"entity_type": ["is not a machine."]})
    narrow_to_visible([entity_type] if entity_type else [], visible)
    if capability:
        require_visible(request, Task.flow, Worker.flow)
    return Scope(visible, entity_type, capability)


def _read_period(params: QueryParams) -> Period:
    name, since, until = params.get_text("range"), params.get_time("since"), params.get_time("until")
    if since and until:
        return trends.choose_period(since, until, now())
    if since or until:
        raise Invalid({"since": ["takes until as well."]})
    if name not in ("", *trends.RANGES):
        raise Invalid({"range": [f"must be one of {', '.join(trends.RANGES)}."]})
    return trends.choose_range(name or DEFAULT_RANGE, now())
