"""The services that all sessions of a worker share."""

from pathlib import Path

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.storage.artifact_usage import ArtifactUsage
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.records.runs.run_models import DeliveryId
from pyoco_server.worker.session.active_runs import ActiveRuns
from pyoco_server.worker.session.failure_report import FailureReport
from pyoco_server.worker.session.presence import Presence


class WorkerServices:
    def __init__(
        self, connection: Connection, presence: Presence, intake: Intake, *, run_dir: Path | None
    ) -> None:
        self.connection = connection
        self.presence = presence
        self.worker_id = presence.worker_id
        self.instance_id = presence.instance_id
        # Parent of the runs' working directories; None if runs use that of this process.
        self.run_dir = run_dir
        self._intake = intake
        self.store = RunStore(connection)
        self.queue = WorkQueue(connection)
        self.journal = Journal(connection)
        self.objects = RunObjects(connection)
        self.logs = RunLogs(connection)
        self.waits = WaitStore(connection)
        self.wait_events = WaitEventLog(connection)
        self.artifact_usage = ArtifactUsage(connection)
        self.active_runs = ActiveRuns()
        # The tokens of the deliveries that sessions handle.
        self.in_progress: set[DeliveryId] = set()
        self.failures = FailureReport(
            DeadLetters(connection),
            worker_id=presence.worker_id,
            publish_execution_errors=connection.config.dlq_publish_execution_error,
        )

    @property
    def ack_wait_sec(self) -> float:
        """As it is now: the consumer of a tag may be changed."""
        return self._intake.ack_wait_sec

    @property
    def max_snapshot_bytes(self) -> int:
        return min(self.connection.config.max_run_snapshot_bytes, self.connection.max_record_bytes)
