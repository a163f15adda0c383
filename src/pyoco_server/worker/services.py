"""What every session of one worker works with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.journal import Journal
from pyoco_server.broker.run_logs import RunLogs
from pyoco_server.broker.run_store import RunStore
from pyoco_server.broker.wait_events import WaitEvents
from pyoco_server.broker.wait_store import WaitStore
from pyoco_server.broker.work_queue import WorkQueue
from pyoco_server.worker.failure_report import FailureReport
from pyoco_server.worker.presence import Presence


@dataclass(frozen=True, slots=True)
class WorkerServices:
    connection: Connection
    store: RunStore
    queue: WorkQueue
    journal: Journal
    logs: RunLogs
    waits: WaitStore
    wait_events: WaitEvents
    failures: FailureReport
    presence: Presence
    worker_id: str
    # Parent of the runs' working directories; None where runs share this process's own.
    run_dir: Path | None
    ack_wait_sec: float
    # How to wake the session of each run under way.
    wakers: dict[str, Callable[[], None]] = field(default_factory=dict)

    def wake(self, run_id: str) -> None:
        """The snapshot of a run was changed elsewhere; a run that is not ours is none of our business."""
        waker = self.wakers.get(run_id)
        if waker is not None:
            waker()

    @property
    def max_snapshot_bytes(self) -> int:
        return min(self.connection.config.max_run_snapshot_bytes, self.connection.max_record_bytes)
