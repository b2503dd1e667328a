"""The alert rules, as a reference page and as Prometheus rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from ...delivery.sinks.alert_rules import RULES
from ...delivery.sinks.alerts import OpenAlerts
from ...kernel.transition import Severity
from ...operations.build_metrics import DatabaseConnections
from ...operations.process_metrics import LeaderUp
from ...operations.task_metrics import QueueDepth
from ...project.environment import ALERT_LIMITS
from ..markdown import format_page, format_table

RUNBOOK = "docs/how-to/respond-to-alerts.md"
# The host of the files in deploy/. `manage.py alertrules` prints the rules with the address of an installation.
EXAMPLE = "https://statecore.example.org"


class PrometheusAlert(NamedTuple):
    name: str
    severity: str
    condition: str
    expression: str
    duration: str = ""

    def get_runbook_url(self, public_url: str) -> str:
        """The section of the console's page, which every account may read."""
        return f"{public_url}/runbook/#{self.name}"


# Nothing in the installation can report that no process watches over it, or that none answers. Requests and background
# tasks are counted by the processes themselves.
EXTERNAL_ALERTS = (
    PrometheusAlert(
        "nothing_watches", str(Severity.CRITICAL),
        "no sequencer and no process that sends webhooks evaluates the rules about the installation itself",
        f'max({LeaderUp.name}{{name="watch"}}) < 1', "1m",
    ),
    PrometheusAlert(
        "nothing_answers", str(Severity.CRITICAL), "no web process could be scraped for two minutes",
        f"absent({OpenAlerts.name})", "2m",
    ),
    PrometheusAlert(
        "http_errors", str(Severity.CRITICAL), "of the requests within 5 minutes, more than 5 % failed with a 5xx",
        'sum(rate(statecore_http_requests_total{status="5xx"}[5m]))'
        " > 0.05 * sum(rate(statecore_http_requests_total[5m]))", "5m",
    ),
    PrometheusAlert(
        "celery_backlog", str(Severity.WARNING), "more than 1,000 messages have waited in a queue for 5 minutes",
        f"max by (queue) ({QueueDepth.name}) > 1000", "5m",
    ),
    PrometheusAlert(
        "celery_failures", str(Severity.WARNING), "a background task has failed more than 3 times within 10 minutes",
        'sum by (task) (increase(statecore_celery_tasks_total{outcome="failure"}[10m])) > 3',
    ),
    PrometheusAlert(
        "database_connections", str(Severity.WARNING), "more than 80 % of the connections of PostgreSQL are in use",
        f'max({DatabaseConnections.name}{{what="open"}}) > 0.8 * max({DatabaseConnections.name}{{what="limit"}})', "5m",
    ),
)  # fmt: skip


def list_alerts() -> list[PrometheusAlert]:
    """Returns all alerts. Prometheus reads which rules the sequencer has open and does not repeat their conditions."""
    internal = [
        PrometheusAlert(
            rule.name, str(rule.severity), rule.condition.format(**ALERT_LIMITS),
            f'max({OpenAlerts.name}{{rule="{rule.name}"}}) > 0',
        )
        for rule in RULES
    ]  # fmt: skip
    return [*internal, *EXTERNAL_ALERTS]


def render_page() -> str:
    rows = [
        (f"[`{each.name}`](../how-to/respond-to-alerts.md#{each.name})", each.severity, each.condition)
        for each in list_alerts()
    ]  # fmt: skip
    return format_page(
        "Alert rules",
        "Each rule raises one alert per affected entity or state. Alerts resolve automatically once the condition",
        "clears, appear in the console and are sent to `STATECORE_NOTIFY_URLS`. The limits below are the defaults of",
        "`STATECORE_ALERTS`. `manage.py alertrules` prints the same rules for Prometheus; the last "
        f"{len(EXTERNAL_ALERTS)} exist only there.",
        "",
        *format_table(("rule", "severity", "condition"), rows),
    )


def render_prometheus_rules(public_url: str) -> str:
    """Returns the rules as YAML. Values are JSON strings, which are valid YAML and need no other escaping."""
    lines = [line for alert in list_alerts() for line in _rule(alert, public_url)]
    return "\n".join(["groups:", "  - name: statecore", "    rules:", *lines, ""])


def _rule(alert: PrometheusAlert, public_url: str) -> Iterator[str]:
    yield f"      - alert: Statecore{alert.name.title().replace('_', '')}"
    yield f"        expr: {json.dumps(alert.expression)}"
    if alert.duration:
        yield f"        for: {alert.duration}"
    yield "        labels:"
    yield f"          severity: {alert.severity}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(f'{alert.condition[:1].upper()}{alert.condition[1:]}.')}"
    yield f"          runbook_url: {json.dumps(alert.get_runbook_url(public_url))}"
