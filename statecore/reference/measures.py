"""The page of the metrics, from the registries that `/metrics` is told from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from ..derive.tables import table
from ..project.metrics import STANDING
from . import written

TOTAL = "_total"
# Which samples Prometheus keeps of one metric.
SAMPLES = {"counter": (TOTAL,), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


class Measure(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    says: str

    @property
    def samples(self) -> set[str]:
        return {f"{self.name.removesuffix(TOTAL)}{suffix}" for suffix in SAMPLES[self.kind]}


def measures() -> list[Measure]:
    return sorted([*_counted(), *_standing()])


def _counted() -> Iterator[Measure]:
    """What processes count. The library's own are left out: in several processes it does not tell them."""
    for metric in dict.fromkeys(REGISTRY._collector_to_names):
        if isinstance(metric, MetricWrapperBase):
            name = f"{metric._name}{TOTAL}" if metric._type == "counter" else metric._name
            yield Measure(name, str(metric._type), tuple(metric._labelnames), metric._documentation)


def _standing() -> Iterator[Measure]:
    for gauge in STANDING:
        yield Measure(gauge.name, "gauge", gauge.labels, gauge.says)


def page() -> str:
    rows = [
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.says)
        for each in measures()
    ]
    return written.page(
        "Metrics",
        "At `/metrics`, in the format of Prometheus. Counters and histograms are added up over the processes that",
        "share `PROMETHEUS_MULTIPROC_DIR`, and begin anew with the installation: take their `rate`, and `sum` it. The",
        "sequencer counts what happened, so it has to share that folder with a web process that is scraped. Gauges are",
        "read from the database when they are asked for, and are the same at every web process: take their `max`.",
        "",
        *table(("metric", "kind", "labels", "says"), rows),
        "",
        "Dashboards for Grafana are in `deploy/grafana/`, alert rules for Prometheus in `deploy/prometheus/`; both are",
        "written from the declarations. [Alert rules](alerts.md).",
    )
