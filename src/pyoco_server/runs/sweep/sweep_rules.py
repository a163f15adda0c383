"""The rules of the sweep, without a broker: when a run is orphaned, and how it is repaired.

A run with an owner is written at every heartbeat, and its message is redelivered after AckWait. A run that is
silent for longer than both has no owner and gets none. A parked run is silent by design: it has no owner, no
job and no time limit until its wait is over. So is a run with a later start, until it is released.
"""

from dataclasses import dataclass
from enum import Enum, auto

from pyoco_server.aio.urgent_work import LONGEST_BURST_SEC
from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.lifecycle.ownership import time_used_by_heartbeat
from pyoco_server.runs.open_runs import RunState

# Longer than a submission takes from its first write to its last.
_SUBMISSION_SEC = 2.0
_MISSED_HEARTBEATS = 2
# How much of the interval a round waits for the end of a burst of submits, at most.
_BURST_PART = 0.4
_SWEPT = {RunStatus.PENDING, RunStatus.RUNNING, RunStatus.CANCELLING}


def burst_wait_sec(interval_sec: float) -> float:
    """With a short interval the lease is short as well: a longer wait would lose it in each burst."""
    return min(LONGEST_BURST_SEC, _BURST_PART * interval_sec)


class Repair(Enum):
    NONE = auto()
    # CANCELLED: a cancel was requested, and there is no owner.
    CANCEL = auto()
    # FAILED: it is past its time limit, and there is no owner.
    TIME_OUT = auto()
    # FAILED if its message is still there: its deliveries are exhausted.
    EXHAUSTED = auto()
    # Start it: its time has come, and the timekeeper has not started it.
    RELEASE = auto()
    # Publish a job, if there is none in the queue.
    REQUEUE = auto()


@dataclass(frozen=True, slots=True)
class SilenceThresholds:
    """How long a run may be silent before it counts as orphaned."""

    # Before a worker has started it.
    unstarted_sec: float
    # Longer than an owner ever goes between two heartbeats.
    heartbeats_sec: float

    @classmethod
    def of(cls, config: NatsBackendConfig) -> "SilenceThresholds":
        return cls(
            unstarted_sec=max(_SUBMISSION_SEC, 2 * config.sweep_interval_sec),
            heartbeats_sec=_MISSED_HEARTBEATS * config.run_heartbeat_interval_sec,
        )

    @property
    def min_sec(self) -> float:
        return min(self.unstarted_sec, self.heartbeats_sec)

    def started_sec(self, limits: DeliveryLimits) -> float:
        return limits.ack_wait_sec + self.heartbeats_sec

    def exhausted_sec(self, limits: DeliveryLimits) -> float:
        """For a run whose deliveries are exhausted: AckWait has passed already since its last sign.

        A living owner signals at least twice in that time.
        """
        return max(limits.ack_wait_sec / 2, self.heartbeats_sec)


def is_overdue(state: RunState, now: float, thresholds: SilenceThresholds) -> bool:
    """Whether the timekeeper has not released a SCHEDULED run at its time."""
    return (state.start_at or 0.0) + thresholds.unstarted_sec <= now


def repair_for(
    state: RunState, silent_sec: float, limits: DeliveryLimits, thresholds: SilenceThresholds
) -> Repair:
    started = state.delivery is not None
    if silent_sec < (thresholds.started_sec(limits) if started else thresholds.unstarted_sec):
        return Repair.NONE
    if state.status not in _SWEPT:
        # It has open waits or a later start; or it is of a newer version, which knows how to repair it.
        return Repair.NONE
    if state.cancel_requested_at is not None:
        return Repair.CANCEL
    if past_time_limit(state, silent_sec):
        return Repair.TIME_OUT
    if state.delivery is not None and limits.exhausted_by(state.delivery.number):
        return Repair.EXHAUSTED
    return Repair.REQUEUE


def past_time_limit(state: RunState, silent_sec: float) -> bool:
    """Counted by its owner up to its last heartbeat, and by this clock since then; without its waits."""
    if state.timeout_sec is None or state.start_time is None or state.delivery is None:
        # Without a delivery it was not started, or has an answer and waits in the queue.
        return False
    used_sec = state.used_sec
    if used_sec is None:
        used_sec = time_used_by_heartbeat(state.start_time, state.heartbeat_at, state.waited_sec)
    return used_sec + silent_sec > state.timeout_sec
