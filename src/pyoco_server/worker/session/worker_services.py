"""The services that all sessions of a worker share."""

from dataclasses import dataclass, field
from pathlib import Path

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.dead_letters import DeadLetters
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_log_store import RunLogs
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.worker.session.active_runs import ActiveRuns
from pyoco_server.worker.session.failure_report import FailureReport
from pyoco_server.worker.session.presence import Presence


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
    # Parent of the runs' working directories; None if runs use that of this process.
    run_dir: Path | None
    ack_wait_sec: float
    active_runs: ActiveRuns = field(default_factory=ActiveRuns)

    @classmethod
    def at(
        cls, connection: Connection, presence: Presence, *, run_dir: Path | None, ack_wait_sec: float
    ) -> "WorkerServices":
        failures = FailureReport(
            DeadLetters(connection),
            worker_id=presence.worker_id,
            publish_execution_errors=connection.config.dlq_publish_execution_error,
        )
        return cls(
            connection=connection,
            store=RunStore(connection),
            queue=WorkQueue(connection),
            journal=Journal(connection),
            logs=RunLogs(connection),
            waits=WaitStore(connection),
            wait_events=WaitEvents(connection),
            failures=failures,
            presence=presence,
            worker_id=presence.worker_id,
            run_dir=run_dir,
            ack_wait_sec=ack_wait_sec,
        )

    @property
    def max_snapshot_bytes(self) -> int:
        return min(self.connection.config.max_run_snapshot_bytes, self.connection.max_record_bytes)
