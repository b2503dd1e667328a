"""Grafana dashboards: an overview, and one row of panels per machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...kernel import registry
from ...kernel.flow import Flow

WINDOW = "[5m]"
WIDTH = 24  # columns of Grafana's grid
VARIABLE = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
DATASOURCE = {"type": "prometheus", "uid": "${source}"}

Panel = dict[str, Any]


def render_dashboards() -> dict[str, str]:
    return {
        "overview": _dashboard("statecore-overview", "Statecore", _overview()),
        "machines": _dashboard("statecore-machines", "Statecore machines", _machines()),
        "service": _dashboard("statecore-service", "Statecore service", _service()),
    }


def _overview() -> list[Panel]:
    return [
        row("Needs attention"),
        number("Open alerts", Query("sum(max by (rule) (statecore_open_alerts))", "")),
        number("Overdue entities", Query("sum(max by (entity_type, state) (statecore_stuck_entities))", "")),
        number("Sequencer lag", Query("max(statecore_sequencer_lag_seconds)", ""), unit="s"),
        graph("Open alerts by rule", Query("max by (rule) (statecore_open_alerts) > 0", "{{rule}}")),
        graph(
            "Overdue entities",
            Query("max by (entity_type, state) (statecore_stuck_entities) > 0", "{{entity_type}} {{state}}"),
        ),
        row("Activity"),
        graph(
            "Transitions per second",
            Query(f"sum by (entity_type) (rate(state_transitions_total{WINDOW}))", "{{entity_type}}"),
            unit="ops",
        ),
        graph(
            "Refusals per second",
            Query(f"sum by (code) (rate(statecore_refusals_total{WINDOW}))", "{{code}}"),
            unit="ops",
        ),
        graph(
            "Overrides per hour",
            Query("sum by (operator) (increase(manual_state_overrides_total[1h]))", "{{operator}}"),
        ),
        graph(
            "Requests with idempotency key",
            Query(f"sum by (result) (rate(statecore_idempotent_requests_total{WINDOW}))", "{{result}}"),
            unit="ops",
        ),
        graph("Sequencer lag", Query("max by (what) (statecore_sequencer_lag_seconds)", "{{what}}"), unit="s"),
    ]


def _service() -> list[Panel]:
    """Rate, errors and duration of requests and background tasks, and the database behind them."""
    requests, tasks = "statecore_http_requests_total", "statecore_celery_tasks_total"
    buckets = f"sum by (le, route) (rate(statecore_http_request_duration_seconds_bucket{WINDOW}))"
    task_buckets = f"sum by (le, task) (rate(statecore_celery_task_duration_seconds_bucket{WINDOW}))"
    return [
        row("Requests"),
        graph(
            "Requests per second by route",
            Query(f"topk(10, sum by (route) (rate({requests}{WINDOW})))", "{{route}}"),
            "ops",
        ),
        graph(
            "Failed requests per second",
            Query(f'sum by (route, status) (rate({requests}{{status="5xx"}}{WINDOW}))', "{{route}}"),
            "ops",
        ),
        graph(
            "Refused requests per second",
            Query(f'topk(10, sum by (route) (rate({requests}{{status="4xx"}}{WINDOW})))', "{{route}}"),
            "ops",
        ),
        graph("Duration, 95th percentile", Query(f"topk(10, histogram_quantile(0.95, {buckets}))", "{{route}}"), "s"),
        row("Background tasks"),
        graph("Tasks per second by outcome", Query(f"sum by (outcome) (rate({tasks}{WINDOW}))", "{{outcome}}"), "ops"),
        graph(
            "Failed tasks per hour", Query(f'sum by (task) (increase({tasks}{{outcome="failure"}}[1h]))', "{{task}}")
        ),
        graph(
            "Duration, 95th percentile", Query(f"topk(10, histogram_quantile(0.95, {task_buckets}))", "{{task}}"), "s"
        ),
        graph("Messages that wait", Query("max by (queue) (statecore_celery_queue_messages)", "{{queue}}")),
        row("Database"),
        graph(
            "Database time per request",
            Query(
                f"topk(10, sum by (route) (rate(statecore_http_database_seconds_total{WINDOW}))"
                f" / sum by (route) (rate({requests}{WINDOW})))",
                "{{route}}",
            ),
            "s",
        ),
        graph("Connections", Query("max by (what) (statecore_database_connections)", "{{what}}")),
        graph(
            "Errors per second",
            Query(f"sum by (error) (rate(statecore_database_errors_total{WINDOW}))", "{{error}}"),
            "ops",
        ),
        graph(
            "Wait for the write lock of SQLite, 95th percentile",
            Query(
                f"histogram_quantile(0.95, sum by (le) (rate(statecore_database_lock_wait_seconds_bucket{WINDOW})))",
                "",
            ),
            "s",
        ),
        row("Versions"),
        graph(
            "Processes by version",
            Query("max by (version, python, django, database) (statecore_build_info)", "{{version}}"),
        ),
    ]


def _machines() -> list[Panel]:
    return [panel for flow in registry.flows() for panel in _machine(flow)]


def _machine(flow: Flow) -> Iterable[Panel]:
    selector = f'entity_type="{flow.entity_type}"'
    live = "|".join(state for state in flow.states if not flow.is_final(state))
    yield row(flow.entity_type)
    yield graph(
        "Entities per live state",
        Query(f'max by (state) (entity_state{{{selector},state=~"{live}"}})', "{{state}}"),
        stacked=True,
    )
    yield graph(
        "Transitions per second by target state",
        Query(f"sum by (to_state) (rate(state_transitions_total{{{selector}}}{WINDOW}))", "{{to_state}}"),
        unit="ops",
    )
    buckets = (
        f'sum by (le, state) (rate(state_transition_duration_seconds_bucket{{{selector},state=~"{live}"}}{WINDOW}))'
    )
    yield graph("Time in state, 95th percentile", Query(f"histogram_quantile(0.95, {buckets})", "{{state}}"), unit="s")
    yield graph("Overdue entities", Query(f"max by (state) (statecore_stuck_entities{{{selector}}})", "{{state}}"))


def _dashboard(uid: str, title: str, panels: list[Panel]) -> str:
    dashboard = {
        "uid": uid,
        "title": title,
        "description": "Generated by manage.py machines --docs.",
        "tags": ["statecore"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [VARIABLE]},
        "panels": _arrange(panels),
    }
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"


class Query(NamedTuple):
    expression: str
    legend: str


def row(title: str) -> Panel:
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "size": (WIDTH, 1)}


def number(title: str, query: Query, unit: str = "short") -> Panel:
    return _panel("stat", title, query, unit, size=(4, 6))


def graph(title: str, query: Query, unit: str = "short", *, stacked: bool = False) -> Panel:
    panel = _panel("timeseries", title, query, unit, size=(6, 8))
    if stacked:
        panel["fieldConfig"]["defaults"]["custom"] = {"stacking": {"mode": "normal"}, "fillOpacity": 30}
    return panel


def _panel(kind: str, title: str, query: Query, unit: str, *, size: tuple[int, int]) -> Panel:
    return {
        "type": kind,
        "title": title,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "A", "datasource": DATASOURCE, "expr": query.expression, "legendFormat": query.legend},
        ],
        "size": size,
    }


def _arrange(panels: list[Panel]) -> list[Panel]:
    """Arranges panels from left to right, in rows as high as their highest panel."""
    arranged: list[Panel] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        width, height = panel["size"]
        if x + width > WIDTH:
            x, y, row_height = 0, y + row_height, 0
        position = {"x": x, "y": y, "w": width, "h": height}
        arranged.append(
            {"id": number, "gridPos": position, **{key: value for key, value in panel.items() if key != "size"}}
        )
        x, row_height = x + width, max(row_height, height)
    return arranged
