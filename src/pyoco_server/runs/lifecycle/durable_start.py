"""Starts a run with a predetermined id: a repeated call has no further effect.

Unlike a submission, nothing is withdrawn: a caller that is interrupted calls again, with the same job.
"""

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.records.ids import uuid_of
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.runs.run_models import Job, RunStatus
from pyoco_server.runs.lifecycle.prepared_run import has_documents, keep_documents, prepare_run


def run_id_for(kind: CauseKind, owner: str, incarnation: str | float, occurrence: str | float) -> str:
    """The id of the run that this occurrence starts: the same in every gateway.

    `owner` is what starts it, such as a schedule, with its tenant; `incarnation` distinguishes it from an
    earlier one of the same name.
    """
    return uuid_of(kind, owner, incarnation, occurrence)


class DurableStarter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = RunStore(connection)
        self._queue = WorkQueue(connection)
        self._journal = Journal(connection)

    async def ensure_run(self, job: Job) -> bool:
        """Store the run and publish its job, unless that was done; True if the run was created now.

        NatsUnavailable means that it may or may not exist: call again. The job has to be the same each time.
        A run that was deleted since is created again, once NATS has forgotten its marker: a caller that
        knows that its run existed does not call.
        """
        prepared = await prepare_run(self._connection, job)
        if has_documents(job) and not await self._store.exists(job.run_id):
            await keep_documents(self._journal, job)
        try:
            revision = await self._store.create(prepared.snapshot, encoded=prepared.snapshot_bytes)
        except RevisionConflict:
            await self._publish_unstarted(job)
            return False
        if not prepared.is_delayed:
            await self._queue.publish(job, run_revision=revision, encoded=prepared.job_bytes)
        return True

    async def _publish_unstarted(self, job: Job) -> None:
        """Publish the job of a run that an interrupted call has stored; the queue drops a second one."""
        stored = await self._store.get_from_leader(job.run_id)
        if stored is None or stored.snapshot.status is not RunStatus.PENDING:
            return
        if stored.snapshot.start_time is None:
            await self._queue.publish(job, run_revision=stored.revision)
