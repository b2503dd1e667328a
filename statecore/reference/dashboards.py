"""Dashboards for Grafana: how everything stands, and a row for each machine, read off the declarations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..kernel import registry
from ..kernel.flow import Flow
from .panels import SOURCE, Query, graph, number, placed, row

MINUTE = "[5m]"


def dashboards() -> dict[str, str]:
    return {
        "overview": _dashboard("statecore-overview", "Statecore", _overview()),
        "machines": _dashboard("statecore-machines", "Statecore: the machines", _machines()),
    }


def _overview() -> list[dict[str, Any]]:
    return [
        row("Needs attention"),
        number("Open alerts", Query("sum(max by (rule) (statecore_open_alerts))", "")),
        number("Past their deadline", Query("sum(max by (entity_type, state) (statecore_stuck_entities))", "")),
        number("Sequencer behind", Query("max(statecore_sequencer_lag_seconds)", ""), unit="s"),
        graph("Open alerts by rule", Query("max by (rule) (statecore_open_alerts) > 0", "{{rule}}")),
        graph(
            "Past their deadline",
            Query("max by (entity_type, state) (statecore_stuck_entities) > 0", "{{entity_type}} {{state}}"),
        ),
        row("What happens"),
        graph(
            "Transitions a second",
            Query(f"sum by (entity_type) (rate(state_transitions_total{MINUTE}))", "{{entity_type}}"),
            unit="ops",
        ),
        graph(
            "Refusals a second",
            Query(f"sum by (code) (rate(statecore_refusals_total{MINUTE}))", "{{code}}"),
            unit="ops",
        ),
        graph(
            "Forced states in an hour",
            Query("sum by (operator) (increase(manual_state_overrides_total[1h]))", "{{operator}}"),
        ),
        graph(
            "Requests with a key",
            Query(f"sum by (result) (rate(statecore_idempotent_requests_total{MINUTE}))", "{{result}}"),
            unit="ops",
        ),
        graph("Sequencer behind", Query("max by (what) (statecore_sequencer_lag_seconds)", "{{what}}"), unit="s"),
    ]


def _machines() -> list[dict[str, Any]]:
    return [panel for flow in registry.flows() for panel in _machine(flow)]


def _machine(flow: Flow) -> Iterable[dict[str, Any]]:
    of = f'entity_type="{flow.entity_type}"'
    live = "|".join(state for state in flow.states if not flow.is_final(state))
    yield row(flow.entity_type)
    yield graph(
        "In each live state",
        Query(f'max by (state) (entity_state{{{of},state=~"{live}"}})', "{{state}}"),
        stacked=True,
    )
    yield graph(
        "Entered a second",
        Query(f"sum by (to_state) (rate(state_transitions_total{{{of}}}{MINUTE}))", "{{to_state}}"),
        unit="ops",
    )
    stays = f'sum by (le, state) (rate(state_transition_duration_seconds_bucket{{{of},state=~"{live}"}}{MINUTE}))'
    yield graph("Stays: 95 of 100 are shorter", Query(f"histogram_quantile(0.95, {stays})", "{{state}}"), unit="s")
    yield graph("Past their deadline", Query(f"max by (state) (statecore_stuck_entities{{{of}}})", "{{state}}"))


def _dashboard(uid: str, title: str, panels: list[dict[str, Any]]) -> str:
    made = {
        "uid": uid,
        "title": title,
        "description": "Written by manage.py machines --docs.",
        "tags": ["statecore"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [SOURCE]},
        "panels": placed(panels),
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"
