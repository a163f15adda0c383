"""Rules of a worker: when it starts over, how many runs it holds, and the state that its record shows."""

import pytest

from pyoco_server import PyocoNatsWorker
from pyoco_server.broker.client.connection import NoAnswer, PayloadTooLarge
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden, NatsUnavailable, UnusableConsumer
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.worker import nats_worker
from pyoco_server.worker.executors import executor_handle
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
    assert executor_handle.queue_limit(took_sec) == most


async def test_a_worker_is_not_connected_without_a_resolver() -> None:
    with pytest.raises(TypeError, match="flow_resolver"):
        await PyocoNatsWorker.connect(NatsBackendConfig())


class Attempts:
    """Starts that fail with these errors, then one that succeeds."""

    def __init__(self, *failures: NatsUnavailable) -> None:
        self._failures = list(failures)
        self.left_sec: list[float | None] = []

    async def __call__(self, left_sec: float | None) -> str:
        self.left_sec.append(left_sec)
        if self._failures:
            raise self._failures.pop(0)
        return "started"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_worker, "_RETRY_SEC", (0.0, 0.0))


@pytest.mark.usefixtures("no_pause")
async def test_a_start_is_tried_again_until_nats_answers() -> None:
    attempts = Attempts(*[NoAnswer("no leader yet") for _ in range(30)])
    assert await nats_worker._until_answered("w", attempts, None) == "started"
    assert attempts.left_sec == [None] * 31


async def test_each_attempt_has_the_rest_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_worker, "_RETRY_SEC", (0.01, 0.01))
    attempts = Attempts(NoAnswer("no leader yet"), NoAnswer("no leader yet"))
    assert await nats_worker._until_answered("w", attempts, 3600.0) == "started"
    first, second, third = (left or 0.0 for left in attempts.left_sec)
    assert 3600.0 >= first > second > third > 0.0


async def test_a_start_is_not_tried_again_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_worker, "_RETRY_SEC", (1.0, 1.0))
    attempts = Attempts(NoAnswer("no leader yet"))
    with pytest.raises(NoAnswer, match="no leader yet"):
        await nats_worker._until_answered("w", attempts, 0.2)
    assert len(attempts.left_sec) == 1


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("failure", [NatsForbidden, UnusableConsumer, PayloadTooLarge])
async def test_a_start_that_waiting_does_not_help_fails_at_once(failure: type[NatsUnavailable]) -> None:
    attempts = Attempts(failure("as it is"))
    with pytest.raises(failure, match="as it is"):
        await nats_worker._until_answered("w", attempts, None)
    assert len(attempts.left_sec) == 1


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
