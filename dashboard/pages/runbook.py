"""The runbook: for each alert rule, what it means, what to check and what to do. Alert rules and notices link here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from statecore.dashboard import rendering
from statecore.dashboard.queries import runbook


@require_safe
def show_runbook(request: HttpRequest) -> HttpResponse:
    sections = [(name, runbook.render_section(name)) for name in runbook.list_sections()]
    return rendering.render(request, "dashboard/runbook.html", {"sections": sections})
