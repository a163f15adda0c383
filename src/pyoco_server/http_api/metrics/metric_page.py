"""A page of metrics in the text format of Prometheus."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, core, generate_latest
from prometheus_client.registry import Collector

from pyoco_server.http_api.metrics.metric_table import METRIC, METRICS, Metric, MetricKind, max_gauge_name


class Distribution:
    """A histogram."""

    __slots__ = ("_bounds", "_counts", "_sum", "max")

    def __init__(self, metric: str) -> None:
        self._bounds = METRIC[metric].bounds
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self.max = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value
        self.max = max(self.max, value)

    @property
    def total(self) -> float:
        return self._sum

    def buckets(self) -> list[tuple[str, float]]:
        names = [*map(str, map(float, self._bounds)), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


class MetricPage(Collector):
    """Filled and rendered once. A name that is not in the table is a KeyError."""

    def __init__(self) -> None:
        self._families = {metric.name: _family(metric) for metric in METRICS}

    def put(self, name: str, value: float, *labels: str) -> None:
        family = self._families[name]
        assert isinstance(family, core.GaugeMetricFamily | core.CounterMetricFamily)
        family.add_metric(labels, value)

    def put_distribution(self, name: str, values: Distribution, *labels: str) -> None:
        family = self._families[name]
        assert isinstance(family, core.HistogramMetricFamily)
        family.add_metric(labels, values.buckets(), values.total)
        self.put(max_gauge_name(name), values.max, *labels)

    def collect(self) -> Iterator[core.Metric]:
        yield from self._families.values()

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


def _family(metric: Metric) -> core.Metric:
    match metric.kind:
        case MetricKind.GAUGE:
            return core.GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case MetricKind.COUNTER:
            return core.CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case MetricKind.HISTOGRAM:
            return core.HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
