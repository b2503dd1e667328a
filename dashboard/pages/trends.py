"""Trends: fragments of the overview and of a machine's page, the page of a capability, and the same as CSV."""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from statecore.dashboard import charts, permissions, rendering
from statecore.kernel import registry
from statecore.kernel.clock import now, rfc3339
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.read_models import trends as read_model
from statecore.read_models.trends import Period, Scope
from statecore.records.roll_up import CAPABILITY_LENGTH

from .query_params import get_text, get_time

DEFAULT_RANGE = "1h"
CHOICES = ("range", "since", "until")
SUBJECTS = ("machine", "capability", "q")


class Chosen(NamedTuple):
    """The range as the URL names it; `error` states why another one is shown."""

    period: Period
    range: str
    error: str = ""


@require_safe
def trends(request: HttpRequest) -> HttpResponse:
    """Fragment: the charts, for all machines, for one or for a capability."""
    scope, chosen = _read_scope(request), choose_period(request)
    report = read_model.build_report(scope, chosen.period)
    subject = {name: get_text(request, name) for name in SUBJECTS if get_text(request, name)}
    context: dict[str, Any] = {
        "name": "Trends",
        "chosen": chosen,
        "report": report,
        "charts": [charts.draw_panel(panel, chosen.period) for panel in report.panels],
        "ticks": charts.list_ticks(chosen.period),
        "tick_format": "minute" if chosen.period.end - chosen.period.start <= timedelta(hours=36) else "day",
        "size": (charts.WIDTH, charts.HEIGHT),
        "days": charts.DAYS,
        "cells": charts.draw_heat_map(report.heat_map) if report.heat_map else [],
        "capabilities": _list_capabilities(scope, chosen),
        "ranges": [(name, _list_urls(subject, {"range": name}), name == chosen.range) for name in read_model.RANGES],
        "page": _page_url(subject, {}),
        "subject": subject,
        "again": f"{reverse('console:trends')}?{urlencode({**subject, 'range': chosen.range})}" if chosen.range else "",
        "csv": f"{reverse('console:trends_csv')}?{urlencode({**subject, **read_choice(request)})}",
        "max_days": read_model.MAX_DAYS,
    }
    return rendering.render(request, "dashboard/parts/trends.html", context)


@require_safe
def capability(request: HttpRequest, name: str) -> HttpResponse:
    """The page of a capability: its load, and the tasks that require it."""
    if "\0" in name or len(name) > CAPABILITY_LENGTH:
        raise Http404("There is no capability with this name.")
    for flow in (Task.flow, Worker.flow):
        permissions.require_action(request, flow, "view")
    context = {"capability": name, "trends": make_query(request, {"capability": name})}
    return rendering.render(request, "dashboard/capability.html", context)


@require_safe
def export(request: HttpRequest) -> HttpResponse:
    """What the charts show, with a row for each step and a column for each line."""
    scope, chosen = _read_scope(request), choose_period(request)
    report, file = read_model.build_report(scope, chosen.period), StringIO()
    lines = [(panel, line) for panel in report.panels for line in panel.lines]
    names = [f"{panel.name}: {line.name} ({panel.unit})" for panel, line in lines]
    writer = csv.writer(file)
    writer.writerow(["start", *names, *(f"{name}, period before" for name in names)])
    columns = [*(line.values for _panel, line in lines), *(line.before for _panel, line in lines)]
    for place, start in enumerate(chosen.period.list_starts()):
        writer.writerow([rfc3339(start), *(_format_cell(column[place]) for column in columns)])
    response = HttpResponse(file.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="trends-{chosen.period.start:%Y%m%d-%H%M}.csv"'
    return response


def _format_cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def make_query(request: HttpRequest, subject: dict[str, str]) -> str:
    """The parameters of the fragment for a page: what it is about, and the range in the URL of the page."""
    return urlencode({**subject, **read_choice(request)})


def read_choice(request: HttpRequest) -> dict[str, str]:
    return {name: get_text(request, name) for name in CHOICES if get_text(request, name)}


def choose_period(request: HttpRequest) -> Chosen:
    at, named = now(), get_text(request, "range")
    since, until = get_time(request, "since"), get_time(request, "until")
    error = ""
    if since and until:
        try:
            return Chosen(read_model.choose_period(since, until, at), "")
        except Invalid as refusal:
            error = " ".join(f"{name} {' '.join(why)}" for name, why in refusal.facts["errors"].items())
    name = named if named in read_model.RANGES else DEFAULT_RANGE
    return Chosen(read_model.choose_range(name, at), name, error)


def _read_scope(request: HttpRequest) -> Scope:
    visible = frozenset(flow.entity_type for flow in permissions.require_visible_machines(request))
    machine, wanted = get_text(request, "machine"), get_text(request, "capability")
    if machine:
        flow = registry.find(machine)
        if flow is None:
            raise Http404(f"There is no machine {machine}.")
        permissions.require_action(request, flow, "view")
    scope = Scope(visible, machine, wanted)
    if wanted and not scope.has_load:
        for flow in (Task.flow, Worker.flow):
            permissions.require_action(request, flow, "view")
    return scope


def _list_capabilities(scope: Scope, chosen: Chosen) -> list[read_model.CapabilityLoad]:
    return (
        []
        if scope.entity_type or scope.capability or not scope.has_load
        else read_model.list_capabilities(chosen.period)
    )


def _list_urls(subject: dict[str, str], choice: dict[str, str]) -> tuple[str, str]:
    """Of the fragment, and of the page that shows it."""
    return f"{reverse('console:trends')}?{urlencode({**subject, **choice})}", _page_url(subject, choice)


def _page_url(subject: dict[str, str], choice: dict[str, str]) -> str:
    if "capability" in subject:
        page, kept = reverse("console:capability", args=[subject["capability"]]), {}
    elif "machine" in subject:
        page = reverse("console:machine", args=[registry.flow(subject["machine"]).collection])
        kept = {"q": subject["q"]} if "q" in subject else {}
    else:
        page, kept = reverse("console:overview"), {}
    query = urlencode({**kept, **choice})
    return f"{page}?{query}" if query else page
