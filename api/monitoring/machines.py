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
from ..query_params import RequestParams
from ..request import Request
from ..responses import json_response
from ..views import ApiView

# The SVG has inline styles; scripts stay disabled, also if a browser opens the file directly.
DIAGRAM_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"


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
    def get(self, request: Request) -> HttpResponse:
        """List the machines that the caller may see."""
        RequestParams(request)
        return json_response({"results": [describe_machine(flow) for flow in visible_machines(request)]})


class Machine(ApiView):
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        """Return one machine."""
        RequestParams(request)
        return json_response(describe_machine(_get_visible_flow(request, entity_type)))


class SvgDiagram(ApiView):
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        """Render the machine as SVG, in the colours that the viewer prefers; `counts` adds entities per state."""
        flow = _get_visible_flow(request, entity_type)
        counts = (
            board.count_by_state()[flow.entity_type] if RequestParams(request, "counts").get_flag("counts") else None
        )
        response = HttpResponse(render_svg(flow, counts), content_type="image/svg+xml; charset=utf-8")
        response["Content-Security-Policy"] = DIAGRAM_POLICY
        return response


class MermaidDiagram(ApiView):
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        """Render the machine as a Mermaid state diagram."""
        RequestParams(request)
        return HttpResponse(
            render_mermaid(_get_visible_flow(request, entity_type)), content_type="text/plain; charset=utf-8"
        )
