"""How runs are counted and timed, from changes of their snapshots."""

from typing import Any

import pytest

from pyoco_server.http_api.metrics.metric_page import Distribution
from pyoco_server.http_api.metrics.metric_table import METRIC, MetricKind
from pyoco_server.http_api.metrics.run_timings import MAX_FLOWS, OTHER_FLOWS, RunTimings
from pyoco_server.records.runs.run_models import Job, Reason, RunStatus, encode, pending_snapshot
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.watch.run_hub import RunChange
from tests.support.scrape import Scrape

STARTS = "pyoco_run_schedule_to_start_seconds_count"


def change_of(job: Job, revision: int, **fields: Any) -> RunChange:
    snapshot = pending_snapshot(job)
    for name, value in fields.items():
        setattr(snapshot, name, value)
    data = encode(snapshot)
    return RunChange(job.run_id, revision, data, summary=summary_of(data))


def test_a_run_is_counted_once() -> None:
    timings = RunTimings()
    job = new_job(flow_name="etl", tag="default")
    began = job.submitted_at + 2
    running = {"status": RunStatus.RUNNING, "start_time": began, "attempt": 1}
    ended = {"status": RunStatus.COMPLETED, "start_time": began, "end_time": began + 7, "attempt": 3}
    timings.take([change_of(job, 1)])
    timings.take([change_of(job, 2, **running), change_of(job, 3, **running)])
    waiting = Scrape.of(timings)
    assert waiting.value("pyoco_run_schedule_to_start_seconds_sum", flow="etl") == pytest.approx(2)
    assert waiting.value("pyoco_run_duration_seconds_count", flow="etl") is None
    timings.take([change_of(job, 4, **ended)])
    timings.take([RunChange(job.run_id, 5, None)])
    found = Scrape.of(timings)
    assert found.value(STARTS, flow="etl") == 1
    assert found.value("pyoco_run_duration_seconds_sum", flow="etl") == pytest.approx(7)
    assert found.value("pyoco_runs_ended_total", flow="etl", status="COMPLETED") == 1
    assert found.value("pyoco_redeliveries_total") == 2


def test_the_longest_times_are_reported_beside_the_histograms() -> None:
    timings = RunTimings()
    for seconds in (3.0, 9.0, 4.0):
        job = new_job(flow_name="etl", tag="default")
        began = job.submitted_at + seconds / 2
        ended = {"status": RunStatus.COMPLETED, "start_time": began, "end_time": began + seconds}
        timings.take([change_of(job, 1, **ended)])
    found = Scrape.of(timings)
    assert found.value("pyoco_run_duration_max_seconds", flow="etl") == pytest.approx(9)
    assert found.value("pyoco_run_schedule_to_start_max_seconds", flow="etl") == pytest.approx(4.5)


def test_a_run_that_is_only_seen_ended_is_counted_whole() -> None:
    timings = RunTimings()
    job = new_job(flow_name="etl", tag="default")
    ended = {"status": RunStatus.FAILED, "start_time": job.submitted_at - 1, "end_time": job.submitted_at}
    timings.take([change_of(job, 9, **ended)])
    found = Scrape.of(timings)
    # The worker's clock is behind: no wait is shorter than none.
    assert found.value("pyoco_run_schedule_to_start_seconds_sum", flow="etl") == 0
    assert found.value("pyoco_run_duration_seconds_sum", flow="etl") == pytest.approx(1)


def test_a_run_that_never_began_has_ended_but_took_no_time() -> None:
    timings = RunTimings()
    job = new_job(flow_name="etl", tag="default")
    timings.take([change_of(job, 1, status=RunStatus.CANCELLED, end_time=job.submitted_at + 1)])
    found = Scrape.of(timings)
    assert found.value("pyoco_runs_ended_total", flow="etl", status="CANCELLED") == 1
    assert found.value("pyoco_run_duration_seconds_count", flow="etl") is None


def test_a_run_that_failed_with_human_timeout_is_not_remembered_and_did_not_start_again() -> None:
    timings, job = RunTimings(), new_job(flow_name="etl", tag="default")
    began = job.submitted_at + 5
    running: dict[str, Any] = {"status": RunStatus.RUNNING, "start_time": began}
    timed_out = {
        "status": RunStatus.FAILED,
        "reason": Reason.HUMAN_TIMEOUT,
        "end_time": began + 1,
        "waited_sec": 1.0,
    }
    retried = {"status": RunStatus.WAITING_HUMAN, "waited_sec": 2.0}
    for revision, (fields, remembered) in enumerate([({}, 1), (timed_out, 0), (retried, 1)], start=1):
        timings.take([change_of(job, revision, **running | fields)])
        assert len(timings._started) == remembered
    assert Scrape.of(timings).value(STARTS, flow="etl") == 1


def test_the_start_of_a_run_that_is_first_seen_as_it_waits_for_people_is_observed() -> None:
    """It has asked at once, between two reads of the feed."""
    timings, job = RunTimings(), new_job(flow_name="etl", tag="default")
    waiting = {"status": RunStatus.WAITING_HUMAN, "start_time": job.submitted_at + 5, "generation": 1}
    timings.take([change_of(job, 1, **waiting)])
    assert Scrape.of(timings).value(STARTS, flow="etl") == 1


def test_the_number_of_flow_labels_is_bounded() -> None:
    timings = RunTimings()
    for number in range(MAX_FLOWS + 20):
        job = new_job(flow_name=f"flow-{number}", tag="default")
        began = job.submitted_at
        timings.take([change_of(job, 1, status=RunStatus.COMPLETED, start_time=began, end_time=began + 1)])
    found = Scrape.of(timings)
    assert len(found.labels("pyoco_run_duration_seconds_count", "flow")) == MAX_FLOWS + 1
    assert found.value("pyoco_run_duration_seconds_count", flow=OTHER_FLOWS) == 20
    assert not timings._started


def test_a_value_counts_below_its_bound_and_above_it() -> None:
    metric = METRIC["pyoco_http_request_seconds"]
    assert metric.kind is MetricKind.HISTOGRAM
    values = Distribution(metric.name)
    for value in (0.0, 0.001, 0.0011, 99.0):
        values.add(value)
    buckets = dict(values.buckets())
    assert (buckets["0.001"], buckets["0.0025"], buckets["2.5"], buckets["+Inf"]) == (2, 3, 3, 4)
    assert values.total == pytest.approx(99.0021)
