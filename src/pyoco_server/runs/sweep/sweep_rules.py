"""When a run has been left alone: the rules of the sweep, without a broker.

A run with an owner is written at every heartbeat, and its message comes to another worker after AckWait.
So one that was quiet for longer than both has no owner, and nobody has come to be its next one. A run that
waits for people is quiet by nature: it has no owner, no job and no time limit until somebody has answered.
"""

from dataclasses import dataclass
from enum import Enum, auto

from pyoco_server.broker.queue.work_queue import DeliveryLimits
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import RunStatus
from pyoco_server.runs.lifecycle.time_used import time_used_by_heartbeat
from pyoco_server.runs.sweep.open_runs import RunState

# Longer than a submission takes from its first write to its last one.
_SUBMISSION_SEC = 2.0
_MISSED_HEARTBEATS = 2
_LOOKED_AFTER = {RunStatus.PENDING, RunStatus.RUNNING, RunStatus.CANCELLING}


class Need(Enum):
    """What a run needs that was left alone."""

    NOTHING = auto()
    # To be CANCELLED: the wish is recorded, and nobody is there to fulfil it.
    CANCEL = auto()
    # To be FAILED: it is past its time limit, and nobody is there to enforce it.
    TIME_OUT = auto()
    # To be FAILED if its message is still there: it was delivered as often as it may be.
    GIVE_UP = auto()
    # A job in the queue, if there is none.
    JOB = auto()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a run may be quiet before it counts as left alone."""

    # Before any worker has begun it.
    unbegun_sec: float
    # More than an owner ever lets pass between two heartbeats.
    heartbeats_sec: float

    @classmethod
    def of(cls, config: NatsBackendConfig) -> "Patience":
        return cls(
            unbegun_sec=max(_SUBMISSION_SEC, 2 * config.sweep_interval_sec),
            heartbeats_sec=_MISSED_HEARTBEATS * config.run_heartbeat_interval_sec,
        )

    @property
    def least_sec(self) -> float:
        """No run counts as left alone before."""
        return min(self.unbegun_sec, self.heartbeats_sec)

    def begun_sec(self, limits: DeliveryLimits) -> float:
        return limits.ack_wait_sec + self.heartbeats_sec

    def given_up_sec(self, limits: DeliveryLimits) -> float:
        """For a run whose message the server has given up: AckWait has passed already since its last sign.

        A worker gives a sign at least twice in that time, so that an owner which lives was heard since.
        """
        return max(limits.ack_wait_sec / 2, self.heartbeats_sec)


def need_of(state: RunState, quiet_sec: float, limits: DeliveryLimits, patience: Patience) -> Need:
    begun = state.delivery is not None
    if quiet_sec < (patience.begun_sec(limits) if begun else patience.unbegun_sec):
        return Need.NOTHING
    if state.status not in _LOOKED_AFTER:
        # It waits for people; or it is a newer gateway's word, which knows what such a run needs.
        return Need.NOTHING
    if state.cancel_requested_at is not None:
        return Need.CANCEL
    if past_time_limit(state, quiet_sec):
        return Need.TIME_OUT
    if state.delivery is not None and limits.used_up_by(state.delivery[1]):
        return Need.GIVE_UP
    return Need.JOB


def past_time_limit(state: RunState, quiet_sec: float) -> bool:
    """Counted by its owner up to its last heartbeat, and on our clock since then; without its waits."""
    if state.timeout_sec is None or state.start_time is None:
        return False
    used_sec = state.used_sec
    if used_sec is None:
        used_sec = time_used_by_heartbeat(state.start_time, state.heartbeat_at, state.waited_sec)
    return used_sec + quiet_sec > state.timeout_sec
