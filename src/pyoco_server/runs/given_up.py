"""Jobs that the server has given up, because they were delivered as often as they may be.

Their runs end: they may be what brings workers down. But a run that its last worker has handed back in good
order has done nothing of the kind, and gets a new job.
"""

import logging
import time

import msgspec

from pyoco_server.broker.advisories import UsedUp
from pyoco_server.broker.queued_runs import QueuedRuns
from pyoco_server.broker.run_store import StoredRun
from pyoco_server.broker.stream_reads import StreamMessage
from pyoco_server.error_table import Err
from pyoco_server.models import DeadLetter, Job, Reason, RunSnapshot, RunStatus, decode_job
from pyoco_server.runs.mending import Ending, Mender
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep_rules import Patience

log = logging.getLogger(__name__)


def given_up(snapshot: RunSnapshot, deliveries: int) -> Ending:
    """The end of a run that was delivered that often and never finished."""
    last = f"worker {snapshot.worker_id} had it last" if snapshot.worker_id else "no worker ever began it"
    error = f"the job was delivered {deliveries} times, as often as it may be, and never finished; {last}"
    return Ending(RunStatus.FAILED, Reason.DELIVERIES_EXHAUSTED, error)


def was_handed_back(snapshot: RunSnapshot) -> bool:
    """Whether its last worker has let it go, and somebody else is to go on with it."""
    return snapshot.handed_back is True and snapshot.cancel_requested_at is None


class LastDeliveries:
    """What becomes of a run whose job is not delivered any more."""

    def __init__(self, mender: Mender, queued: QueuedRuns) -> None:
        self._mender = mender
        self._queued = queued

    async def settle(self, stored: StoredRun, deliveries: int) -> bool:
        """End the run or give it a new job; false if it has moved on."""
        snapshot = stored.snapshot
        if snapshot.delivery is None or not was_handed_back(snapshot):
            return await self._mender.end(stored, given_up(snapshot, deliveries))
        # First of all: as long as the old message is there, the new one would be taken for its duplicate.
        await self._mender.queue.remove(snapshot.delivery[0])
        self._queued.forget(snapshot.run_id)
        if subject := await self._mender.give_job(stored):
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

    async def settle(self, used_up: UsedUp) -> bool:
        """Deal with one of them; false while there may still be somebody who works on it."""
        message = await self._mender.queue.message(used_up.sequence)
        if message is None:
            return True
        try:
            job = decode_job(message.data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            await self._tell_unreadable(message, used_up, str(error) or type(error).__name__)
        else:
            if not await self._end_run(job, used_up):
                return False
        await self._mender.queue.remove(used_up.sequence)
        return True

    async def _end_run(self, job: Job, used_up: UsedUp) -> bool:
        """End the run of the job; true also if it does not need this message any more."""
        stored = await self._mender.stored(job.run_id)
        if stored is None or stored.snapshot.status.terminal:
            return True
        if stored.snapshot.generation != job.generation:
            # Left over from before the run waited for people.
            return True
        delivery = stored.snapshot.delivery
        if delivery is not None:
            if delivery[0] != used_up.sequence:
                # Another message is its job now.
                return True
            limits = await self._mender.queue.limits(job.tag)
            quiet_sec = self._runs.quiet_sec(job.run_id, stored.revision)
            if not was_handed_back(stored.snapshot) and quiet_sec < self._patience.given_up_sec(limits):
                return False
        return await self._last_deliveries.settle(stored, used_up.deliveries)

    async def _tell_unreadable(self, message: StreamMessage, used_up: UsedUp, problem: str) -> None:
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
            num_delivered=used_up.deliveries,
            subject=message.subject,
        )
        await self._mender.publish_letter(letter, tag)
