"""When a run is orphaned, and how it is repaired."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import DeliveryId
from pyoco_server.runs.open_runs import RunState
from pyoco_server.runs.sweep.sweep_rules import (
    Repair,
    SilenceThresholds,
    burst_wait_sec,
    past_time_limit,
    repair_for,
)

LIMITS = DeliveryLimits(ack_wait_sec=30.0, max_deliver=3)
PATIENCE = SilenceThresholds.of(NatsBackendConfig())


def state(**fields: object) -> RunState:
    return RunState(**{"status": "RUNNING", "heartbeat_at": 100.0, "start_time": 90.0, **fields})  # type: ignore[arg-type]


UNBEGUN = state(status="PENDING", start_time=None)
BEGUN = state(delivery=DeliveryId(7, 1))
LAST = state(delivery=DeliveryId(7, 3))
LIMITED = state(delivery=DeliveryId(7, 1), timeout_sec=60.0)


def cancelled(run: RunState) -> RunState:
    return RunState(
        **{**{name: getattr(run, name) for name in run.__struct_fields__}, "cancel_requested_at": 1.0}
    )


@pytest.mark.parametrize(
    ("run", "quiet_sec", "need"),
    [
        (UNBEGUN, 9.0, Repair.NONE),
        (UNBEGUN, 11.0, Repair.REQUEUE),
        (cancelled(UNBEGUN), 9.0, Repair.NONE),
        (cancelled(UNBEGUN), 11.0, Repair.CANCEL),
        (BEGUN, 31.0, Repair.NONE),
        (BEGUN, 33.0, Repair.REQUEUE),
        (cancelled(BEGUN), 31.0, Repair.NONE),
        (cancelled(BEGUN), 33.0, Repair.CANCEL),
        (LAST, 31.0, Repair.NONE),
        (LAST, 33.0, Repair.EXHAUSTED),
        (cancelled(LAST), 33.0, Repair.CANCEL),
        # It had used 10 s at its last heartbeat.
        (LIMITED, 33.0, Repair.REQUEUE),
        (LIMITED, 49.0, Repair.REQUEUE),
        (LIMITED, 51.0, Repair.TIME_OUT),
        (cancelled(LIMITED), 51.0, Repair.CANCEL),
    ],
)
def test_the_repair_of_a_silent_run(run: RunState, quiet_sec: float, need: Repair) -> None:
    assert repair_for(run, quiet_sec, LIMITS, PATIENCE) is need


def test_an_unknown_status_is_not_repaired() -> None:
    dreaming = state(status="DREAMING", delivery=DeliveryId(7, 3), timeout_sec=1.0)
    assert repair_for(dreaming, 10**6, LIMITS, PATIENCE) is Repair.NONE


def test_a_run_with_open_waits_is_never_repaired() -> None:
    waiting = state(status="WAITING_HUMAN", timeout_sec=1.0)
    assert repair_for(waiting, 10**9, LIMITS, PATIENCE) is Repair.NONE


def test_an_answered_run_without_a_job_is_queued_again_and_not_timed_out() -> None:
    """It has no owner while it waits in the queue, so that this time does not count."""
    answered = state(status="PENDING", used_sec=50.0, timeout_sec=60.0, generation=1)
    assert repair_for(answered, 10**6, LIMITS, PATIENCE) is Repair.REQUEUE


def test_waits_do_not_count_against_the_limit() -> None:
    waited = state(delivery=DeliveryId(7, 1), heartbeat_at=1000.0, waited_sec=900.0, timeout_sec=60.0)
    assert not past_time_limit(waited, 49.0)
    assert past_time_limit(waited, 51.0)


def test_the_time_counted_by_the_owner_is_used() -> None:
    """Owner and starter were two machines, an hour apart."""
    counted = state(delivery=DeliveryId(7, 1), heartbeat_at=3700.0, used_sec=10.0, timeout_sec=60.0)
    assert not past_time_limit(counted, 49.0)
    assert past_time_limit(counted, 51.0)


def test_an_owned_run_is_not_timed_out() -> None:
    late = state(delivery=DeliveryId(7, 1), heartbeat_at=1000.0, timeout_sec=60.0)
    assert past_time_limit(late, 0.0)
    assert repair_for(late, 31.0, LIMITS, PATIENCE) is Repair.NONE
    assert repair_for(late, 33.0, LIMITS, PATIENCE) is Repair.TIME_OUT


def test_a_long_heartbeat_interval_raises_the_threshold() -> None:
    """Its heartbeats may be further apart than AckWait, which it extends separately."""
    seldom = SilenceThresholds.of(NatsBackendConfig(run_heartbeat_interval_sec=40.0))
    assert repair_for(BEGUN, 79.0, LIMITS, seldom) is Repair.NONE
    assert repair_for(BEGUN, 111.0, LIMITS, seldom) is Repair.REQUEUE
    assert seldom.exhausted_sec(LIMITS) == 80.0


def test_a_submission_in_progress_is_not_repaired() -> None:
    hasty = SilenceThresholds.of(NatsBackendConfig(sweep_interval_sec=0.01))
    assert repair_for(UNBEGUN, 1.9, LIMITS, hasty) is Repair.NONE


@given(number=st.integers(1, 10**6))
def test_without_a_limit_deliveries_are_never_exhausted(number: int) -> None:
    assert not DeliveryLimits(30.0, -1).exhausted_by(number)
    assert DeliveryLimits(30.0, 20).exhausted_by(number) == (number >= 20)


@pytest.mark.parametrize(("interval_sec", "wait_sec"), [(60.0, 2.0), (5.0, 2.0), (1.0, 0.4), (0.5, 0.2)])
def test_a_round_waits_for_a_burst_for_a_part_of_its_interval(interval_sec: float, wait_sec: float) -> None:
    assert burst_wait_sec(interval_sec) == wait_sec
