"""A gauge that is read from the database when somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class Standing(Collector):
    name: ClassVar[str]
    says: ClassVar[str]
    labels: ClassVar[tuple[str, ...]]

    def values(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """The labels of each sample, and its number."""
        raise NotImplementedError

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self.name, self.says, labels=self.labels)
        for labels, value in self.values():
            family.add_metric(labels, value)
        yield family
