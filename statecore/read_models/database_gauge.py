"""A Prometheus gauge that reads its values from the database on each scrape."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class DatabaseGauge(Collector):
    name: ClassVar[str]
    documentation: ClassVar[str]
    labels: ClassVar[tuple[str, ...]]

    @abstractmethod
    def values(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """Returns the labels and value of each sample."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self.name, self.documentation, labels=self.labels)
        for labels, value in self.values():
            family.add_metric(labels, value)
        yield family
