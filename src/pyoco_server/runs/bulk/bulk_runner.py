"""Executes bulk operations in the background.

A lease limits it to one gateway; if that one crashes, another continues from the last record. Operations take
turns, one group of items each. The record is written after each group, by compare-and-set: if a gateway
crashes before that write, the next one repeats the steps of the group.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from enum import Enum, auto

from msgspec import structs

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.lease import Lease
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords, StoredBulk
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters, StoredLetter
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, PyocoError, UnreadableRecord
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.bulk_models import BulkAction, BulkError, BulkItem, BulkRecord, BulkState
from pyoco_server.records.runs.run_models import Job, RerunMode
from pyoco_server.runs.bulk.letter_operations import replay_job
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.idempotency import keyed_submission
from pyoco_server.runs.lifecycle.rerun import RequestedRerun, rerun_job
from pyoco_server.runs.lifecycle.submission import Submitter
from pyoco_server.runs.lifecycle.tenancy import Caller

log = logging.getLogger(__name__)

# Items of a group are handled concurrently.
_GROUP = 32
_MAX_ERRORS = 20
_MESSAGE_CHARS = 500
# Backoff of an item while NATS is available: in total longer than a crashed gateway holds an idempotency key.
_RETRY_SEC = (0.25, 0.5, 1.0, 2.0, 4.0)
_MISSED_ROUNDS = 3


class StepResult(Enum):
    DONE = auto()
    # There was nothing to do.
    SKIPPED = auto()


class BulkSteps:
    """The step of each action on one item. A step may be taken twice, and has its effect once.

    A cancel is requested once; a rerun has an idempotency key of the operation and the run. A dead letter is
    handled only if it is the one that was counted: a recreated stream uses its sequences again.
    """

    def __init__(self, connection: Connection, submitter: Submitter) -> None:
        self._connection = connection
        self._submitter = submitter
        self._runs = RunStore(connection)
        self._letters = DeadLetters(connection)

    async def take(self, record: BulkRecord, item: BulkItem) -> StepResult:
        """A PyocoError says why it is impossible."""
        match record.action:
            case BulkAction.CANCEL:
                return await self._cancel(record, item.name)
            case BulkAction.RERUN:
                mode = record.mode or RerunMode.START
                rerun = RequestedRerun(item.name, mode, keep_answers=record.keep_answers)
                job = await rerun_job(self._connection, rerun, _caller(record))
                await self._submit(record, job)
                return StepResult.DONE
            case BulkAction.REPLAY_LETTERS:
                return await self._replay(record, item)
            case BulkAction.DELETE_LETTERS:
                return await self._delete(item)

    async def _cancel(self, record: BulkRecord, run_id: str) -> StepResult:
        requester = f"bulk:{record.bulk_id}"
        run = await cancel_run(
            self._connection, self._runs, run_id, _caller(record), by=requester, reason=record.reason
        )
        return StepResult.DONE if run.cancel_requested_by == requester else StepResult.SKIPPED

    async def _replay(self, record: BulkRecord, item: BulkItem) -> StepResult:
        stored = await self._counted_letter(item)
        if stored is None:
            return StepResult.SKIPPED
        mode = record.mode or RerunMode.START
        job = await replay_job(self._connection, stored, _caller(record), mode=mode)
        await self._submit(record, job)
        if record.delete:
            await self._letters.delete(stored.seq)
        return StepResult.DONE

    async def _delete(self, item: BulkItem) -> StepResult:
        stored = await self._counted_letter(item)
        if stored is None:
            return StepResult.SKIPPED
        await self._letters.delete(stored.seq)
        return StepResult.DONE

    async def _counted_letter(self, item: BulkItem) -> StoredLetter | None:
        stored = await self._letters.get(int(item.name))
        if stored is None or item.digest not in (None, stored.digest):
            return None
        return stored

    async def _submit(self, record: BulkRecord, job: Job) -> None:
        """One new run per origin, however many letters or attempts there are."""
        key = f"bulk:{record.bulk_id}:{job.origin_run_id}"
        await self._submitter.submit(job, request=keyed_submission(key, job))


def _caller(record: BulkRecord) -> Caller:
    """The caller that started the operation, which was allowed to see all items."""
    return Caller(record.tenant_id, record.api_key_id, sees_all=True)


class BulkRunner:
    def __init__(self, connection: Connection, submitter: Submitter) -> None:
        self._connection = connection
        self._interval_sec = connection.config.sweep_interval_sec
        self._records = BulkRecords(connection)
        self._steps = BulkSteps(connection, submitter)
        self.lease = Lease(connection, "bulk", ttl_sec=_MISSED_ROUNDS * self._interval_sec)
        # The records were read up to here.
        self._revision = 0
        connection.on_connect(self._reset_revision)
        self._open: set[str] = set()
        self._loop = BackgroundLoop("bulk", self._step)

    async def start(self) -> None:
        self._loop.start()

    def work_on(self, bulk_id: str) -> None:
        """Start on a new operation without waiting for the next interval."""
        self._open.add(bulk_id)
        self._loop.wake()

    async def close(self) -> None:
        """Stop, and release the lease to another gateway."""
        await self._loop.close()
        await self.lease.close()

    async def _step(self) -> None:
        await self._connection.wait_ready()
        try:
            await self._read_records()
            while self._open and await self.lease.hold():
                for bulk_id in sorted(self._open):
                    await self._try_advance(bulk_id)
                await self._read_records()
            if not self._open and self.lease.held:
                await self.lease.release()
        except NatsUnavailable as error:
            log.warning("bulk operations pause: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
        await self._loop.pause(self._interval_sec)

    async def _reset_revision(self) -> None:
        """After a reconnect the bucket may be another one."""
        self._revision = 0

    async def _read_records(self) -> None:
        """Read what was written since the last call: new operations, and ends of others."""
        records, self._revision = await self._records.written_since(self._revision)
        for record in records:
            if record.state is BulkState.RUNNING:
                self._open.add(record.bulk_id)
            else:
                self._open.discard(record.bulk_id)

    async def _try_advance(self, bulk_id: str) -> None:
        """One operation must not stop the others."""
        try:
            await self._advance(bulk_id)
        except NatsUnavailable:
            raise
        except UnreadableRecord:
            # Reported when it was read.
            self._open.discard(bulk_id)
        except Exception:
            log.exception("bulk operation %s cannot be continued by this gateway", bulk_id)
            self._open.discard(bulk_id)

    async def _advance(self, bulk_id: str) -> None:
        """Handle the next group of an operation."""
        stored = await self._records.get(bulk_id)
        if stored is None or stored.record.state is not BulkState.RUNNING:
            self._open.discard(bulk_id)
            return
        try:
            items = await self._records.items(stored.record, _GROUP)
        except UnreadableRecord:
            items = None
        if not await self.lease.hold():
            return
        if not items:
            await self._stop_incomplete(stored)
            return
        started = await self._started(stored)
        if started is None:
            return
        stored = started
        async with asyncio.TaskGroup() as group:
            steps = [group.create_task(self._handle(stored.record, item)) for item in items]
        await self._record(stored, [step.result() for step in steps])

    async def _started(self, stored: StoredBulk) -> StoredBulk | None:
        """The operation, marked as started, so that it is not withdrawn any more; None if it just was."""
        if stored.record.started_at is not None:
            return stored
        started = structs.replace(stored.record, started_at=time.time())
        try:
            return await self._records.replace(started, revision=stored.revision)
        except RevisionConflict:
            log.info("bulk operation %s was written concurrently; reading it again", stored.record.bulk_id)
            return None

    async def _handle(self, record: BulkRecord, item: BulkItem) -> StepResult | BulkError:
        for pause in (*_RETRY_SEC, None):
            try:
                return await self._steps.take(record, item)
            except NatsUnavailable as error:
                if not isinstance(error, PayloadTooLarge):
                    await self._connection.wait_ready()
                    if pause is not None:
                        await asyncio.sleep(pause)
                        continue
                return _error(item.name, error)
            except PyocoError as error:
                return _error(item.name, error)
            except Exception as error:
                log.exception("a bulk operation failed on an item", extra={"run_id": item.name})
                return BulkError(
                    item=item.name, err_id=None, message=f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS]
                )
        raise AssertionError("unreachable")

    async def _stop_incomplete(self, stored: StoredBulk) -> None:
        """Stop the operation: the list of its remaining items is lost."""
        text = "the list of the remaining items is not stored any more, or cannot be read"
        lost = BulkError(item="", err_id=None, message=text)
        now = time.time()
        ended = structs.replace(
            stored.record,
            state=BulkState.STOPPED,
            errors=[lost, *stored.record.errors],
            updated_at=now,
            finished_at=now,
        )
        log.error("stopped bulk operation %s: %s", stored.record.bulk_id, lost.message)
        try:
            await self._records.replace(ended, revision=stored.revision)
        except RevisionConflict:
            log.info("bulk operation %s was written concurrently; reading it again", stored.record.bulk_id)

    async def _record(self, stored: StoredBulk, steps: Sequence[StepResult | BulkError]) -> None:
        """Write the progress; keeps a stop request that came meanwhile."""
        handled = stored.record.handled
        while True:
            advanced = _advanced(stored.record, steps)
            try:
                await self._records.replace(advanced, revision=stored.revision)
            except RevisionConflict:
                newer = await self._records.get(stored.record.bulk_id)
                if newer is None or newer.record.handled != handled:
                    # Another gateway continues it.
                    return
                stored = newer
            else:
                if advanced.state is not BulkState.RUNNING:
                    log.info("bulk operation %s", _described(advanced))
                return


def _advanced(record: BulkRecord, steps: Sequence[StepResult | BulkError]) -> BulkRecord:
    now = time.time()
    errors = [step for step in steps if isinstance(step, BulkError)]
    advanced = structs.replace(
        record,
        done=record.done + sum(step is StepResult.DONE for step in steps),
        skipped=record.skipped + sum(step is StepResult.SKIPPED for step in steps),
        failed=record.failed + len(errors),
        errors=[*record.errors, *errors][:_MAX_ERRORS],
        updated_at=now,
    )
    if record.state is BulkState.RUNNING and advanced.handled >= record.matched:
        advanced.state, advanced.finished_at = BulkState.COMPLETED, now
    return advanced


def _described(record: BulkRecord) -> str:
    handled = f"{record.done} done, {record.skipped} skipped, {record.failed} failed"
    return f"{record.bulk_id} ({record.action}) is {record.state}: {handled} of {record.matched}"


def _error(item: str, error: PyocoError) -> BulkError:
    return BulkError(
        item=item, err_id=error.error.err_id, message=error.sentence(public=True)[:_MESSAGE_CHARS]
    )
