"""Jobs whose deliveries are exhausted (JetStream's max_deliver).

A run fails when a worker started the last delivery and never finished: the run may be what crashes workers.
A delivery that no worker started, or that was handed back, proves nothing: such a run gets a new job.
"""

import logging
import time

from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.queue.advisories import ExhaustedJob
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import UnreadableRecord
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import Job, Reason, RunSnapshot, RunStatus, decode_job
from pyoco_server.runs.lifecycle.unowned_runs import Ending, UnownedRuns
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.sweep_rules import SilenceThresholds

log = logging.getLogger(__name__)


def exhausted_ending(snapshot: RunSnapshot, deliveries: int) -> Ending:
    last = f"worker {snapshot.worker_id} had it last" if snapshot.worker_id else "no worker ever began it"
    error = f"the job was delivered {deliveries} times, as often as it may be, and never finished; {last}"
    return Ending(RunStatus.FAILED, Reason.DELIVERIES_EXHAUSTED, error)


def was_handed_back(snapshot: RunSnapshot) -> bool:
    """Whether its last owner handed it back for another worker."""
    return snapshot.handed_back is True and snapshot.cancel_requested_at is None


def needs_new_job(snapshot: RunSnapshot, deliveries: int) -> bool:
    """Whether no worker failed with the last delivery: none started it, or it was handed back."""
    if snapshot.cancel_requested_at is not None:
        return False
    return snapshot.delivery is None or snapshot.delivery.number < deliveries or was_handed_back(snapshot)


def is_job_of(sequence: int, generation: int, snapshot: RunSnapshot) -> bool:
    """Whether the message is the run's current job; not if the run has waited for an answer since."""
    if snapshot.status.terminal or snapshot.generation != generation:
        return False
    return snapshot.delivery is None or snapshot.delivery.sequence == sequence


class UndeliverableJobs:
    """Ends or requeues a run whose job is not redelivered any more."""

    def __init__(self, unowned_runs: UnownedRuns, queued: QueuedRuns) -> None:
        self._unowned_runs = unowned_runs
        self._queued = queued

    async def settle(self, stored: StoredRun, sequence: int, deliveries: int) -> bool:
        """End the run, or replace the message by a new job; false if the run was written since.

        `deliveries` is the number of the message's last delivery.
        """
        snapshot = stored.snapshot
        if not needs_new_job(snapshot, deliveries):
            return await self._unowned_runs.end(stored, exhausted_ending(snapshot, deliveries))
        await self.replace(
            stored, sequence, "the deliveries of the run's job are exhausted: published a new one"
        )
        return True

    async def replace(self, stored: StoredRun, sequence: int, why: str) -> None:
        """Replace a message that is not delivered any more by a new job of the run."""
        snapshot = stored.snapshot
        # While the message of its last owner is there, a new one counts as its duplicate.
        await self._unowned_runs.queue.remove(sequence)
        self._queued.forget(snapshot.run_id)
        if subject := await self._unowned_runs.republish_job(stored, replaces=sequence, why=why):
            self._queued.add(snapshot.run_id, subject, generation=snapshot.generation)


class ExhaustedDeliveries:
    def __init__(
        self,
        unowned_runs: UnownedRuns,
        runs: OpenRuns,
        undeliverable_jobs: UndeliverableJobs,
        thresholds: SilenceThresholds,
    ) -> None:
        self._unowned_runs = unowned_runs
        self._runs = runs
        self._undeliverable_jobs = undeliverable_jobs
        self._thresholds = thresholds

    async def settle(self, exhausted: ExhaustedJob) -> bool:
        """End or requeue the run of one advisory; false while its owner may be alive."""
        message = await self._unowned_runs.queue.message(exhausted.sequence)
        if message is None:
            return True
        try:
            job = decode_job(message.data)
        except UnreadableRecord as error:
            await self._report_invalid(message, exhausted, error.detail)
        else:
            stored = await self._unowned_runs.stored(job.run_id)
            if stored is not None and is_job_of(exhausted.sequence, job.generation, stored.snapshot):
                if await self._is_stale(job, stored.snapshot, exhausted):
                    return True
                if not await self._settle_run(job, stored, exhausted):
                    return False
        await self._unowned_runs.queue.remove(exhausted.sequence)
        return True

    async def _is_stale(self, job: Job, snapshot: RunSnapshot, exhausted: ExhaustedJob) -> bool:
        """Whether the advisory is of an earlier stream, whose sequences are used again."""
        if snapshot.delivery is not None:
            return False
        return not await self._unowned_runs.queue.has_delivered(job.tag, exhausted.sequence)

    async def _settle_run(self, job: Job, stored: StoredRun, exhausted: ExhaustedJob) -> bool:
        """False while its owner may be alive, or if it was written since."""
        snapshot = stored.snapshot
        limits = await self._unowned_runs.queue.limits(job.tag)
        if snapshot.delivery is not None and not was_handed_back(snapshot):
            silent_sec = self._runs.silent_sec(snapshot.run_id, stored.revision)
            if silent_sec < self._thresholds.exhausted_sec(limits):
                return False
        # The limit may have been raised since.
        deliveries = max(exhausted.deliveries, limits.max_deliver)
        return await self._undeliverable_jobs.settle(stored, exhausted.sequence, deliveries)

    async def _report_invalid(self, message: StreamMessage, exhausted: ExhaustedJob, problem: str) -> None:
        """If its run exists, it has no job now, and the sweep requeues it."""
        error = f"the job cannot be read: {problem}"
        tag = message.subject.rpartition(".")[2]
        spec = Err.INVALID_JOB
        log.error("%s: %s", spec.en, error, extra=spec.log_fields(tag=tag, reason=Reason.INVALID_JOB))
        self._unowned_runs.actions[Reason.INVALID_JOB] += 1
        letter = DeadLetter(
            timestamp=time.time(),
            reason=Reason.INVALID_JOB,
            error=error,
            tag=tag,
            num_delivered=exhausted.deliveries,
            subject=message.subject,
        )
        await self._unowned_runs.publish_letter(letter, tag)
