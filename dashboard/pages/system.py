"""The processes, sweeps, leaders, sinks, disks and witnesses of this installation, with what is degraded first."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.queries.system import read_system

from .query_params import get_text


@require_safe
def system(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_processreport")
    is_part = rendering.is_fragment(request) and get_text(request, "part") == "list"
    template = "dashboard/parts/system.html" if is_part else "dashboard/system.html"
    return rendering.render(request, template, read_system())
