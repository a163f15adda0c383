"""Metric names follow the conventions of Prometheus."""

import re

import pytest

from pyoco_server.http_api.metrics.metric_table import METRICS, Metric, MetricKind

# Gauges whose `_total` is part of the contract.
GAUGES_NAMED_TOTAL = {"pyoco_runs_total", "pyoco_workers_alive_total", "pyoco_dlq_messages_total"}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_metric_follows_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"pyoco_[a-z_]+", metric.name)
    assert metric.unit
    assert metric.help.endswith(".")
    if metric.name not in GAUGES_NAMED_TOTAL:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    if metric.unit in ("seconds", "bytes"):
        assert metric.name.endswith(f"_{metric.unit}")
    assert bool(metric.bounds) == (metric.kind is MetricKind.HISTOGRAM)
    assert list(metric.bounds) == sorted(set(metric.bounds))


def test_metric_names_are_unique() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
