"""Rules of a worker: how many runs it holds and queues, and the state that its record shows."""

import pytest

from pyoco_server import PyocoNatsWorker
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.worker.executors import child_process
from pyoco_server.worker.executors.executor_pool import max_sessions


@pytest.mark.parametrize(
    ("executors", "allowance", "most"),
    [(1, 200, 20), (4, 200, 50), (16, 200, 96), (4, 1000, 80), (4, 1, 24), (4, -1, 80)],
)
def test_one_worker_takes_a_part_of_the_allowance(executors: int, allowance: int, most: int) -> None:
    assert max_sessions(executors, allowance) == most


@pytest.mark.parametrize(
    ("took_sec", "most"),
    [(0.0, 15), (0.0001, 15), (0.001, 10), (0.004, 2), (0.01, 1), (0.0101, 0), (60.0, 0)],
)
def test_the_queue_is_as_long_as_its_last_run_starts_soon(took_sec: float, most: int) -> None:
    assert child_process.queue_limit(took_sec) == most


async def test_a_worker_is_not_connected_without_a_resolver() -> None:
    with pytest.raises(TypeError, match="flow_resolver"):
        await PyocoNatsWorker.connect(NatsBackendConfig())


def test_a_silent_worker_is_disconnected_and_a_stopped_one_stays_stopped() -> None:
    record = WorkerRecord(
        worker_id="w",
        instance_id="i",
        state=WorkerState.IDLE,
        last_seen_at=100,
        last_heartbeat_at=100,
        tags=[],
    )
    assert record.observed_state(disconnect_timeout_sec=20, now=119) is WorkerState.IDLE
    assert record.observed_state(disconnect_timeout_sec=20, now=121) is WorkerState.DISCONNECTED
    record.state = WorkerState.STOPPED_GRACEFUL
    assert record.observed_state(disconnect_timeout_sec=20, now=999) is WorkerState.STOPPED_GRACEFUL
