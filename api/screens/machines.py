"""The declarations: what each machine is, as data and as a drawing."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from statecore import board
from statecore.derive.diagrams import mermaid
from statecore.derive.svg import svg
from statecore.kernel import registry
from statecore.kernel.flow import Flow

from ..permissions import require_sight, seen
from ..request import Request
from ..views import ApiView, answer
from .parameters import Parameters

# The drawing brings its own style and may do nothing else, also when it is opened by itself.
DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"


def declared(flow: Flow) -> dict[str, Any]:
    """As it is declared, with the deadlines that hold here."""
    told = flow.describe()
    for state in told["states"]:
        deadline = flow.deadline(state["name"])
        state["deadline_seconds"] = deadline.total_seconds() if deadline else None
    return told


def _seen(request: Request, entity_type: str) -> Flow:
    flow = registry.flow(entity_type)
    require_sight(request, flow)
    return flow


class Machines(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Every machine: its states, its moves, who may make them."""
        Parameters(request)
        return answer({"results": [declared(flow) for flow in seen(request)]})


class Machine(ApiView):
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        """One machine."""
        Parameters(request)
        return answer(declared(_seen(request, entity_type)))


class Drawing(ApiView):
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        """The machine as a drawing, light or dark as the reader prefers."""
        flow = _seen(request, entity_type)
        counts = board.counts()[flow.entity_type] if Parameters(request, "counts").flag("counts") else None
        response = HttpResponse(svg(flow, counts), content_type="image/svg+xml; charset=utf-8")
        response["Content-Security-Policy"] = DRAWING_POLICY
        return response


class Mermaid(ApiView):
    def get(self, request: Request, entity_type: str) -> HttpResponse:
        """The machine as a Mermaid state diagram."""
        Parameters(request)
        return HttpResponse(mermaid(_seen(request, entity_type)), content_type="text/plain; charset=utf-8")
