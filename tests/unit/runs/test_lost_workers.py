"""When a worker process counts as lost."""

import pytest

from pyoco_server.records.workers.worker_models import WorkerState
from pyoco_server.runs.takeover.lost_workers import LostWorkers, WorkerHead

A, B = "a" * 32, "b" * 32
NONE: frozenset[str] = frozenset()


def head(
    instance_id: str = A, *, state: str = WorkerState.RUNNING, last_seen_at: float = 100.0
) -> WorkerHead:
    return WorkerHead(
        worker_id="w", instance_id=instance_id, state=state, last_seen_at=last_seen_at, tags=["cpu"]
    )


@pytest.fixture
def workers() -> LostWorkers:
    """One process, which was seen connected at 0 s."""
    workers = LostWorkers(1.5)
    workers.on_record(head())
    workers.on_probe(list(workers.probed), NONE, 0.0)
    return workers


def lost_at(workers: LostWorkers, *times: float) -> list[float]:
    """When process A became lost, if all these probes find it disconnected."""
    return [now for now in times if workers.on_probe(list(workers.probed), {A}, now).lost]


def test_a_process_is_lost_when_it_stays_disconnected_for_so_long(workers: LostWorkers) -> None:
    first = workers.on_probe([A], {A}, 0.5)
    assert [process.tags for process in first.missing] == [("cpu",)]
    assert lost_at(workers, 1.0, 1.5, 2.0) == [2.0]
    assert workers.is_lost(A)
    assert not workers.probed


def test_one_late_probe_is_not_enough(workers: LostWorkers) -> None:
    # The gateway was suspended between two probes.
    assert lost_at(workers, 100.0) == []
    assert lost_at(workers, 100.5, 101.0, 101.5) == [101.5]


def test_a_reconnect_starts_anew(workers: LostWorkers) -> None:
    assert lost_at(workers, 0.5, 1.0, 1.5) == []
    workers.on_probe(list(workers.probed), NONE, 2.0)
    assert lost_at(workers, 2.5, 3.0, 3.5) == []


def test_a_heartbeat_starts_anew(workers: LostWorkers) -> None:
    assert lost_at(workers, 0.5, 1.0, 1.5) == []
    workers.on_record(head(last_seen_at=101.0))
    assert lost_at(workers, 2.0, 2.5, 3.0) == []
    assert lost_at(workers, 3.5) == [3.5]


def test_after_an_outage_only_a_process_that_was_seen_again_can_be_lost(workers: LostWorkers) -> None:
    workers.on_outage()
    assert lost_at(workers, *range(20)) == []


def test_a_process_that_was_never_connected_is_not_lost_and_soon_not_probed() -> None:
    # Such as a worker of an earlier version, or an old record.
    workers = LostWorkers(1.5)
    workers.on_record(head())
    assert lost_at(workers, *range(20)) == []
    assert not workers.probed
    assert not workers.is_lost(A)


def test_a_worker_that_stopped_is_not_lost(workers: LostWorkers) -> None:
    workers.on_record(head(state=WorkerState.STOPPED_GRACEFUL, last_seen_at=101.0))
    assert lost_at(workers, 1.0, 2.0, 3.0) == []
    assert not workers.probed


def test_processes_of_one_worker_id_are_distinguished(workers: LostWorkers) -> None:
    # A supervisor has restarted it at once.
    workers.on_record(head(B, last_seen_at=101.0))
    assert lost_at(workers, 1.0, 2.0, 3.0) == [3.0]
    assert workers.is_lost(A)
    assert not workers.is_lost(B)


def test_only_a_heartbeat_brings_a_lost_process_back(workers: LostWorkers) -> None:
    assert lost_at(workers, 1.0, 2.0, 3.0) == [3.0]
    # An operator hides its record, which keeps the time of the last heartbeat.
    workers.on_record(head())
    assert workers.is_lost(A)
    workers.on_record(head(last_seen_at=101.0))
    assert not workers.is_lost(A)
    # It has to be seen connected again.
    assert lost_at(workers, 4.0, 5.0, 6.0) == []
    workers.on_probe(list(workers.probed), NONE, 7.0)
    assert lost_at(workers, 8.0, 9.0, 10.0) == [10.0]
