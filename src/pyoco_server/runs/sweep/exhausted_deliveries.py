"""Jobs that the server has given up, because they were delivered as often as they may be.

A run ends when a worker began the last delivery and never finished: the run may be what brings workers down.
A delivery that no worker began says nothing about the run, nor does one that was handed back in good order:
such a run gets a new job.
"""

import logging
import time

import msgspec

from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.queue.advisories import ExhaustedJob
from pyoco_server.broker.queue.queued_runs import QueuedRuns
from pyoco_server.broker.stores.run_store import StoredRun
from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import DeadLetter, Job, Reason, RunSnapshot, RunStatus, decode_job
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.run_repair import Ending, Mender
from pyoco_server.runs.sweep.sweep_rules import Patience

log = logging.getLogger(__name__)


def given_up(snapshot: RunSnapshot, deliveries: int) -> Ending:
    """The end of a run that was delivered that often and never finished."""
    last = f"worker {snapshot.worker_id} had it last" if snapshot.worker_id else "no worker ever began it"
    error = f"the job was delivered {deliveries} times, as often as it may be, and never finished; {last}"
    return Ending(RunStatus.FAILED, Reason.DELIVERIES_EXHAUSTED, error)


def was_handed_back(snapshot: RunSnapshot) -> bool:
    """Whether its last worker has let it go, and somebody else is to go on with it."""
    return snapshot.handed_back is True and snapshot.cancel_requested_at is None


def needs_new_job(snapshot: RunSnapshot, deliveries: int) -> bool:
    """Whether the run is to go on although its job was delivered that often: no worker failed with the last
    delivery, because none began it, or because it was handed back in good order.
    """
    if snapshot.cancel_requested_at is not None:
        return False
    return snapshot.delivery is None or snapshot.delivery[1] < deliveries or was_handed_back(snapshot)


def _is_job_of(sequence: int, job: Job, snapshot: RunSnapshot) -> bool:
    """Whether the run needs the message to go on; one from before it last waited for people it does not."""
    if snapshot.status.terminal or snapshot.generation != job.generation:
        return False
    return snapshot.delivery is None or snapshot.delivery[0] == sequence


class LastDeliveries:
    """What becomes of a run whose job is not delivered any more."""

    def __init__(self, mender: Mender, queued: QueuedRuns) -> None:
        self._mender = mender
        self._queued = queued

    async def settle(self, stored: StoredRun, sequence: int, deliveries: int) -> bool:
        """End the run or give it a new job instead of the message; false if it has moved on.

        `deliveries` is the number of the last delivery that the message has had or will have.
        """
        snapshot = stored.snapshot
        if not needs_new_job(snapshot, deliveries):
            return await self._mender.end(stored, given_up(snapshot, deliveries))
        if snapshot.delivery is not None:
            # As long as the message of its last owner is there, a new one would be taken for its duplicate.
            await self._mender.queue.remove(sequence)
        self._queued.forget(snapshot.run_id)
        if subject := await self._mender.give_job(stored, replaces=sequence):
            self._queued.add(snapshot.run_id, subject, generation=snapshot.generation)
        return True


class GivenUpJobs:
    def __init__(
        self, mender: Mender, runs: OpenRuns, last_deliveries: LastDeliveries, patience: Patience
    ) -> None:
        self._mender = mender
        self._runs = runs
        self._last_deliveries = last_deliveries
        self._patience = patience

    async def settle(self, exhausted: ExhaustedJob) -> bool:
        """Deal with one of them; false while there may still be somebody who works on it."""
        message = await self._mender.queue.message(exhausted.sequence)
        if message is None:
            return True
        try:
            job = decode_job(message.data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            await self._tell_unreadable(message, exhausted, str(error) or type(error).__name__)
        else:
            stored = await self._mender.stored(job.run_id)
            if stored is not None and _is_job_of(exhausted.sequence, job, stored.snapshot):
                if await self._is_stale(job, stored.snapshot, exhausted):
                    return True
                if not await self._settle_run(job, stored, exhausted):
                    return False
        await self._mender.queue.remove(exhausted.sequence)
        return True

    async def _is_stale(self, job: Job, snapshot: RunSnapshot, exhausted: ExhaustedJob) -> bool:
        """Whether the advisory is about an earlier stream, whose sequences have been given out again."""
        if snapshot.delivery is not None:
            return False
        return not await self._mender.queue.has_delivered(job.tag, exhausted.sequence)

    async def _settle_run(self, job: Job, stored: StoredRun, exhausted: ExhaustedJob) -> bool:
        """End the run or give it a new job; false while its owner may be alive, or if it has moved on."""
        snapshot = stored.snapshot
        limits = await self._mender.queue.limits(job.tag)
        if snapshot.delivery is not None and not was_handed_back(snapshot):
            quiet_sec = self._runs.quiet_sec(snapshot.run_id, stored.revision)
            if quiet_sec < self._patience.given_up_sec(limits):
                return False
        # The limit may have been raised since.
        deliveries = max(exhausted.deliveries, limits.max_deliver)
        return await self._last_deliveries.settle(stored, exhausted.sequence, deliveries)

    async def _tell_unreadable(self, message: StreamMessage, exhausted: ExhaustedJob, problem: str) -> None:
        """A run of it that exists has no job then, and is given one."""
        error = f"the job cannot be read: {problem}"
        tag = message.subject.rpartition(".")[2]
        spec = Err.INVALID_JOB
        log.error("%s: %s", spec.en, error, extra=spec.log_fields(tag=tag, reason=Reason.INVALID_JOB))
        self._mender.actions[Reason.INVALID_JOB] += 1
        letter = DeadLetter(
            timestamp=time.time(),
            reason=Reason.INVALID_JOB,
            error=error,
            tag=tag,
            num_delivered=exhausted.deliveries,
            subject=message.subject,
        )
        await self._mender.publish_letter(letter, tag)
