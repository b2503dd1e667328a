"""The panels of a dashboard, in the format of Grafana."""

from __future__ import annotations

from typing import Any, NamedTuple

WIDTH = 24  # of Grafana's grid
SOURCE = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
READS = {"type": "prometheus", "uid": "${source}"}

Panel = dict[str, Any]


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
        "datasource": READS,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "A", "datasource": READS, "expr": query.expression, "legendFormat": query.legend},
        ],
        "size": size,
    }


def placed(panels: list[Panel]) -> list[Panel]:
    """From left to right, in lines as high as their highest panel."""
    made: list[Panel] = []
    across = down = line = 0
    for number, panel in enumerate(panels, start=1):
        width, height = panel["size"]
        if across + width > WIDTH:
            across, down, line = 0, down + line, 0
        place = {"x": across, "y": down, "w": width, "h": height}
        made.append({"id": number, "gridPos": place, **{key: value for key, value in panel.items() if key != "size"}})
        across, line = across + width, max(line, height)
    return made
