"""The condition `no_worker`: when an alert whose tag has no live worker begins, goes on and ends."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyoco_server.alerts.alert_transitions import AlertFinding, decided
from pyoco_server.alerts.condition_reader import ConditionReader
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.monitoring.alert_models import AlertCondition, AlertRecord, AlertRule
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.index.statistics.activity import QueuedRunCount
from tests.support.broker.worker_records import a_record
from tests.support.samples.alerts import NOW, an_alert

RULE = AlertRule(condition=AlertCondition.NO_WORKER, tag="gpu", after_sec=60.0)
NOTHING_QUEUED = QueuedRunCount(0, None)
QUEUED = QueuedRunCount(2, NOW - 300)


def silent(**fields: Any) -> WorkerRecord:
    return a_record("w1", seen_at=NOW - 300, tags=["gpu"], **fields)


async def found(
    record: AlertRecord, workers: list[WorkerRecord], queued: QueuedRunCount = NOTHING_QUEUED
) -> AlertFinding:
    async def queued_runs(_: str | None, tag: str) -> QueuedRunCount:
        assert tag == "gpu"
        return queued

    async def all_workers() -> list[WorkerRecord]:
        return workers

    lists = cast("Any", SimpleNamespace(queued_runs=queued_runs))
    reader = ConditionReader(NatsBackendConfig(load_dotenv=False), lists, all_workers)
    return await reader.begin().find(record, NOW)


async def firing(workers: list[WorkerRecord], queued: QueuedRunCount = NOTHING_QUEUED) -> AlertRecord:
    record = an_alert(RULE)
    fired = decided(record, await found(record, workers, queued), NOW)
    assert fired.current is not None
    return fired


async def test_queued_runs_of_a_tag_without_workers_are_a_reason_until_they_are_cancelled() -> None:
    record = await firing([], QUEUED)
    assert (await found(record, [], QUEUED)).is_met
    assert not (await found(record, [])).is_met


@pytest.mark.parametrize("workers", [[], [silent()]])
async def test_a_run_that_was_just_queued_does_not_end_the_alert(workers: list[WorkerRecord]) -> None:
    """Such as the next one, when the first was cancelled or the record of the worker was removed."""
    record = await firing(workers, QUEUED)
    assert (await found(record, [], QueuedRunCount(1, NOW - 1))).is_met
    assert not (await found(an_alert(RULE), [], QueuedRunCount(1, NOW - 1))).is_met


async def test_a_silent_worker_is_a_reason_also_when_its_record_is_removed() -> None:
    record = await firing([silent()])
    assert (await found(record, [])).is_met
    assert not (await found(record, [a_record("w2", seen_at=NOW, tags=["gpu"])])).is_met


async def test_cancelled_runs_do_not_end_the_alert_of_a_silent_worker() -> None:
    record = await firing([silent()], QUEUED)
    assert (await found(record, [silent()])).is_met
    assert (await found(record, [])).is_met


@pytest.mark.parametrize(("queued", "is_met"), [(NOTHING_QUEUED, False), (QUEUED, True)])
async def test_a_hidden_worker_is_not_expected_back(queued: QueuedRunCount, is_met: bool) -> None:
    record = await firing([silent()])
    assert (await found(record, [silent(hidden=True)], queued)).is_met is is_met
