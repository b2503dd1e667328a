"""The declarations of the machines, as data and as diagrams."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.read_models import board
from statecore.read_models.diagrams.mermaid import render_mermaid
from statecore.read_models.diagrams.svg import render_svg

from ..access import require_visible, visible_machines
from ..openapi.fields import nullable
from ..openapi.operation import operation, query
from ..openapi.schemas import FLAG, NUMBER, STRING, array, component, deprecated, obj
from ..request import Request
from ..responses import json_response
from ..views import ApiView

# The SVG has inline styles; scripts stay disabled, also if a browser opens the file directly.
DIAGRAM_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"

_STATE = obj({"name": STRING, "terminal": FLAG, "deadline_seconds": nullable(NUMBER)})
_EDGE = {"trigger": STRING, "sources": array(STRING), "target": STRING, "kind": STRING}
_TRANSITIONS = array(obj({**_EDGE, "guards": array(STRING), "actors": array(STRING)}))
MACHINE = component(
    "Machine",
    obj(
        {
            "entity_type": STRING,
            "version": STRING,
            "initial": STRING,
            "states": array(_STATE),
            "transitions": _TRANSITIONS,
            "moves": deprecated(_TRANSITIONS, "transitions"),
        }
    ),
    "The declaration of a machine.",
)


def describe_machine(flow: Flow) -> dict[str, Any]:
    """Return the declaration of a machine, with the deadlines that the settings of this installation set."""
    description = flow.describe()
    for state in description["states"]:
        deadline = flow.deadline(state["name"])
        state["deadline_seconds"] = deadline.total_seconds() if deadline else None
    return {**description, "moves": description["transitions"]}  # `moves` is deprecated


def _get_visible_flow(request: Request, entity_type: str) -> Flow:
    flow = registry.flow(entity_type)
    require_visible(request, flow)
    return flow


class Machines(ApiView):
    route = "machines/"

    @operation(
        "List all machines with states and transitions", {200: obj({"results": array(MACHINE)})}, name="list_machines"
    )
    def get(self, request: Request) -> HttpResponse:
        self.params(request)
        return json_response({"results": [describe_machine(flow) for flow in visible_machines(request)]})


class Machine(ApiView):
    route = "machines/<str:entity_type>/"

    @operation("Read a machine", {200: MACHINE}, name="get_machine")
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        self.params(request)
        return json_response(describe_machine(_get_visible_flow(request, entity_type)))


class SvgDiagram(ApiView):
    route = "machines/<str:entity_type>/diagram.svg"

    @operation(
        "Render a machine as SVG, for light or dark mode",
        {200: None},
        params=[query("counts", FLAG, "Show the number of entities in each state.")],
        other_types={"image/svg+xml": STRING},
    )
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        flow = _get_visible_flow(request, entity_type)
        counts = board.count_by_state()[flow.entity_type] if self.params(request).get_flag("counts") else None
        response = HttpResponse(render_svg(flow, counts), content_type="image/svg+xml; charset=utf-8")
        response["Content-Security-Policy"] = DIAGRAM_POLICY
        return response


class MermaidDiagram(ApiView):
    route = "machines/<str:entity_type>/diagram.mmd"

    @operation("Render a machine as a Mermaid state diagram", {200: None}, other_types={"text/plain": STRING})
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        self.params(request)
        return HttpResponse(
            render_mermaid(_get_visible_flow(request, entity_type)), content_type="text/plain; charset=utf-8"
        )
