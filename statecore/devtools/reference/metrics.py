"""The reference page of the metrics, produced from the registries behind `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from ...project.metrics import DATABASE_GAUGES
from ..markdown import format_page, format_table

TOTAL = "_total"
# The samples that Prometheus stores for each kind of metric.
SAMPLES = {"counter": (TOTAL,), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


class Metric(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    documentation: str

    @property
    def samples(self) -> set[str]:
        return {f"{self.name.removesuffix(TOTAL)}{suffix}" for suffix in SAMPLES[self.kind]}


def list_metrics() -> list[Metric]:
    return sorted([*_process_metrics(), *_database_gauges()])


def _process_metrics() -> Iterator[Metric]:
    """Yields the project's counters and histograms; prometheus_client's own are not exposed in multiprocess mode."""
    for metric in dict.fromkeys(REGISTRY._collector_to_names):
        if isinstance(metric, MetricWrapperBase):
            name = f"{metric._name}{TOTAL}" if metric._type == "counter" else metric._name
            yield Metric(name, str(metric._type), tuple(metric._labelnames), metric._documentation)


def _database_gauges() -> Iterator[Metric]:
    for gauge in DATABASE_GAUGES:
        yield Metric(gauge.name, "gauge", gauge.labels, gauge.documentation)


def render_page() -> str:
    rows = [
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.documentation)
        for each in list_metrics()
    ]
    return format_page(
        "Metrics",
        "Served at `/metrics` in the Prometheus format.",
        "",
        "- Counters and histograms are summed over the processes that share `PROMETHEUS_MULTIPROC_DIR` and start at",
        "  zero with the installation: use `rate`, and `sum` over instances. The sequencer counts transitions, so it",
        "  must share that folder with a web process that is scraped.",
        "- Gauges are read from the database on each scrape and are the same for every web process: use `max`.",
        "  The clock skew has a value for each process, with its `pid`.",
        "",
        *format_table(("metric", "kind", "labels", "meaning"), rows),
        "",
        "`deploy/grafana/` contains dashboards and `deploy/prometheus/` [alert rules](alerts.md), both generated from",
        "the declarations.",
    )
