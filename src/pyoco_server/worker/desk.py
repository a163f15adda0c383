"""What every session of one worker works with."""

from dataclasses import dataclass
from pathlib import Path

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.run_store import RunStore
from pyoco_server.worker.failure_report import FailureReport
from pyoco_server.worker.presence import Presence


@dataclass(frozen=True, slots=True)
class Desk:
    connection: Connection
    store: RunStore
    failures: FailureReport
    presence: Presence
    worker_id: str
    # Parent of the runs' working directories; None where runs share this process's own.
    run_dir: Path | None
    ack_wait_sec: float

    @property
    def max_snapshot_bytes(self) -> int:
        return min(self.connection.config.max_run_snapshot_bytes, self.connection.max_record_bytes)
