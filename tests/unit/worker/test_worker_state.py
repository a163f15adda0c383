"""The state of a worker as its record shows it."""

from pyoco_server.records.models import WorkerRecord, WorkerState


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
