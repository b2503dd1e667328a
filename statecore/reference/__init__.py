"""The generated reference and the files for Prometheus and Grafana, each read off what is declared elsewhere.

It stands above everything: what it describes is of every layer. `manage.py machines --docs` writes it.
"""

from __future__ import annotations

from ..derive import pages
from . import alerts, calls, commands, dashboards, measures, problems, prometheus, scale, variables, verbs

REFERENCE = "docs/reference"


def documents() -> dict[str, str]:
    """Every generated file by its path."""
    return {
        **{f"{REFERENCE}/machines/{name}": text for name, text in pages.pages().items()},
        f"{REFERENCE}/settings.md": variables.page(),
        f"{REFERENCE}/manage.md": commands.page(),
        f"{REFERENCE}/statecore.md": verbs.page(),
        f"{REFERENCE}/rest.md": calls.page(),
        f"{REFERENCE}/problems.md": problems.page(),
        f"{REFERENCE}/metrics.md": measures.page(),
        f"{REFERENCE}/alerts.md": alerts.page(),
        "docs/scale.md": scale.page(),
        "deploy/prometheus/alerts.yml": prometheus.rules(),
        **{f"deploy/grafana/{name}.json": text for name, text in dashboards.dashboards().items()},
    }
