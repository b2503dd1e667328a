"""The generated reference and the files for Prometheus and Grafana, produced from declarations in all layers.

`manage.py machines --docs` writes them.
"""

from __future__ import annotations

import json

from ...executors import compensation_plan
from .. import machine_pages
from . import alerts, command_lines, grafana, metrics, rest_api, scale, settings

REFERENCE = "docs/reference"


def render_documents() -> dict[str, str]:
    """Returns the text of every generated file by its path."""
    return {
        **{f"{REFERENCE}/machines/{name}": text for name, text in machine_pages.render_pages().items()},
        f"{REFERENCE}/settings.md": settings.render_page(),
        f"{REFERENCE}/manage.md": command_lines.render_manage_page(),
        f"{REFERENCE}/statecore.md": command_lines.render_statecore_page(),
        f"{REFERENCE}/rest.md": rest_api.render_calls_page(),
        f"{REFERENCE}/problems.md": rest_api.render_problems_page(),
        f"{REFERENCE}/compensation-plan.schema.json": json.dumps(compensation_plan.json_schema(), indent=2) + "\n",
        f"{REFERENCE}/metrics.md": metrics.render_page(),
        f"{REFERENCE}/alerts.md": alerts.render_page(),
        "docs/scale.md": scale.render_page(),
        "deploy/prometheus/alerts.yml": alerts.render_prometheus_rules(),
        **{f"deploy/grafana/{name}.json": text for name, text in grafana.render_dashboards().items()},
    }
