"""docs/metrics.md is the table of metrics, row by row; and the table keeps to Prometheus' manners."""

import re

import pytest

from pyoco_server.http_api.metrics.metric_table import METRICS, Kind, Metric
from tests.contract.test_docs_tables import first_cells, page

# Gauges that the contract gave the name of a counter.
NAMES_OF_THE_CONTRACT = {"pyoco_runs_total", "pyoco_workers_alive_total", "pyoco_dlq_messages_total"}


def metric_row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.of} | {metric.help} |"


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_documented_as_it_is(metric: Metric) -> None:
    assert metric_row(metric) in page("metrics.md")


def test_no_metric_is_documented_that_does_not_exist() -> None:
    assert first_cells("metrics.md") == [metric.name for metric in METRICS]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_has_a_good_name_a_unit_and_a_sentence(metric: Metric) -> None:
    assert re.fullmatch(r"pyoco_[a-z_]+", metric.name)
    assert metric.unit
    assert metric.help.endswith(".")
    if metric.name not in NAMES_OF_THE_CONTRACT:
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.unit in ("seconds", "bytes"):
        assert metric.name.endswith(f"_{metric.unit}")
    assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.bounds) == sorted(set(metric.bounds))


def test_the_table_has_each_name_once() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
