"""The facts an explanation is made from: everything known about one run at one moment."""

from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.queue.queue_position import JobLocation, TagQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from pyoco_server.runs.sweep.sweep_rules import SilenceThresholds


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """The task that finished last."""

    # None where only the time is known.
    task: str | None
    ended_at: float


# When a heartbeat counts as late.
_LATE_HEARTBEATS: Final = 3
_LATE_SEC: Final = 2.0


@dataclass(frozen=True, slots=True)
class TimingSettings:
    disconnect_sec: float
    heartbeat_sec: float
    grace_sec: float
    sweep_sec: float
    silence: SilenceThresholds

    @classmethod
    def of(cls, config: NatsBackendConfig) -> "TimingSettings":
        return cls(
            disconnect_sec=config.worker_disconnect_timeout_sec,
            heartbeat_sec=config.run_heartbeat_interval_sec,
            grace_sec=config.cancel_grace_period_sec,
            sweep_sec=config.sweep_interval_sec,
            silence=SilenceThresholds.of(config),
        )

    def is_late(self, silent_sec: float) -> bool:
        """Whether a run that was last written so long ago misses heartbeats of its worker."""
        return silent_sec > max(_LATE_SEC, _LATE_HEARTBEATS * self.heartbeat_sec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    now: float
    snapshot: RunSnapshot
    timing: TimingSettings
    # Of an open run: whether it matches its signature.
    authentic: bool = True
    workers: tuple[WorkerRecord, ...] = ()
    # The instance ids of workers whose process is gone.
    lost: frozenset[str] = frozenset()
    # None for an ended run.
    queue: TagQueue | None = None
    location: JobLocation | None = None
    last_finished: FinishedTask | None = None
    last_output_at: float | None = None

    def state_of(self, worker: WorkerRecord) -> WorkerState:
        return worker.observed_state(
            disconnect_timeout_sec=self.timing.disconnect_sec,
            now=self.now,
            lost=worker.instance_id in self.lost,
        )

    def alive(self, worker: WorkerRecord) -> bool:
        return self.state_of(worker).alive

    @property
    def owner(self) -> WorkerRecord | None:
        """The record of the worker that has or had the run."""
        owner_id = self.snapshot.worker_id
        return next((worker for worker in self.workers if worker.worker_id == owner_id), None)

    @property
    def of_tag(self) -> list[WorkerRecord]:
        """Workers that may take the run, alive or not, hidden or not."""
        return [each for each in self.workers if self.snapshot.tag in each.tags]

    def since(self, moment: float | None) -> float:
        """Seconds from then to now, never negative."""
        return 0.0 if moment is None else max(0.0, self.now - moment)
