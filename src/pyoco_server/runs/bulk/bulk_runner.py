"""Carrying out bulk operations in the background of the gateways: one of them at a time does it.

A lease says which; when it dies, another one goes on from the last record. Every operation gets its turn, a
group of items at once, so that a small one does not wait for a large one. The record is written after each
group, by compare-and-set.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from msgspec import structs

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.lease import Lease
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.bulk_records import BulkRecords, StoredBulk
from pyoco_server.errors import NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.records.operation_models import BulkError, BulkItem, BulkRecord, BulkState
from pyoco_server.runs.bulk.bulk_steps import BulkSteps, Step
from pyoco_server.runs.lifecycle.submission import Submitter

log = logging.getLogger(__name__)

# Items of a group are dealt with at once: enough to be quick, few enough for the gateway to stay responsive.
_GROUP = 32
_MOST_ERRORS = 20
_MESSAGE_CHARS = 500
# Pauses before an item is tried again while NATS is there: together longer than a key is held by a submission
# whose gateway died.
_RETRY_SEC = (0.25, 0.5, 1.0, 2.0, 4.0)
_MISSED_ROUNDS = 3


class BulkRunner:
    """Works on the operations that are RUNNING, from `start` to `close`."""

    def __init__(self, connection: Connection, submitter: Submitter) -> None:
        self._connection = connection
        self._interval_sec = connection.config.sweep_interval_sec
        self._records = BulkRecords(connection)
        self._steps = BulkSteps(connection, submitter)
        self.lease = Lease(connection, "bulk", ttl_sec=_MISSED_ROUNDS * self._interval_sec)
        # Up to where the records were read.
        self._revision = 0
        connection.add_hook(self._read_anew)
        self._open: set[str] = set()
        self._loop = BackgroundLoop("bulk", self._step)

    async def start(self) -> None:
        self._loop.start()

    def work_on(self, bulk_id: str) -> None:
        """There is a new operation: see to it that somebody begins."""
        self._open.add(bulk_id)
        self._loop.wake()

    async def close(self) -> None:
        """Stop where it is, and let another gateway go on at once."""
        await self._loop.close()
        if self._connection.ready:
            try:
                await self.lease.release()
            except NatsUnavailable as error:
                log.info("the next gateway goes on when the lease has ended: %s", error)

    async def _step(self) -> None:
        await self._connection.wait_ready()
        try:
            await self._learn()
            while self._open and await self.lease.hold():
                for bulk_id in sorted(self._open):
                    await self._advance(bulk_id)
                await self._learn()
            if not self._open and self.lease.held:
                await self.lease.release()
        except NatsUnavailable as error:
            log.warning("bulk operations pause: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
        await self._loop.pause(self._interval_sec)

    async def _read_anew(self) -> None:
        """After a connect the bucket may be another one, whose revisions begin anew."""
        self._revision = 0

    async def _learn(self) -> None:
        """Read what was written since the last look: new operations, and the ends of others."""
        records, self._revision = await self._records.written_since(self._revision)
        for record in records:
            if record.state is BulkState.RUNNING:
                self._open.add(record.bulk_id)
            else:
                self._open.discard(record.bulk_id)

    async def _advance(self, bulk_id: str) -> None:
        """Deal with the next group of an operation, if we may."""
        stored = await self._records.get(bulk_id)
        if stored is None or stored.record.state is not BulkState.RUNNING:
            self._open.discard(bulk_id)
            return
        items = await self._records.items(stored.record, _GROUP)
        if not await self.lease.hold():
            return
        if not items:
            await self._give_up(stored)
            return
        started = await self._started(stored)
        if started is None:
            return
        stored = started
        async with asyncio.TaskGroup() as group:
            steps = [group.create_task(self._deal_with(stored.record, item)) for item in items]
        await self._record(stored, [step.result() for step in steps])

    async def _started(self, stored: StoredBulk) -> StoredBulk | None:
        """The operation with the mark that it cannot be withdrawn any more; None if it just was."""
        if stored.record.started_at is not None:
            return stored
        started = structs.replace(stored.record, started_at=time.time())
        try:
            return await self._records.replace(started, revision=stored.revision)
        except RevisionConflict:
            log.info("the bulk operation was written by somebody else; it is looked at again")
            return None

    async def _deal_with(self, record: BulkRecord, item: BulkItem) -> Step | BulkError:
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
                log.exception("a bulk operation cannot deal with an item", extra={"run_id": item.name})
                return BulkError(
                    item=item.name, err_id=None, message=f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS]
                )
        raise AssertionError("the last try returns")

    async def _give_up(self, stored: StoredBulk) -> None:
        """The list of what is left is gone, and nobody can know what was on it."""
        lost = BulkError(
            item="", err_id=None, message="the list of the items that were left is not stored any more"
        )
        now = time.time()
        ended = structs.replace(
            stored.record,
            state=BulkState.STOPPED,
            errors=[lost, *stored.record.errors],
            updated_at=now,
            finished_at=now,
        )
        log.error("a bulk operation is stopped: %s", lost.message)
        try:
            await self._records.replace(ended, revision=stored.revision)
        except RevisionConflict:
            log.info("the bulk operation was written by somebody else; it is looked at again")

    async def _record(self, stored: StoredBulk, steps: Sequence[Step | BulkError]) -> None:
        """Write how far it is; a wish to stop that came meanwhile is kept."""
        handled = stored.record.handled
        while True:
            advanced = _advanced(stored.record, steps)
            try:
                await self._records.replace(advanced, revision=stored.revision)
            except RevisionConflict:
                newer = await self._records.get(stored.record.bulk_id)
                if newer is None or newer.record.handled != handled:
                    # Another gateway goes on with it.
                    return
                stored = newer
            else:
                if advanced.state is not BulkState.RUNNING:
                    log.info("bulk operation %s", _in_words(advanced))
                return


def _advanced(record: BulkRecord, steps: Sequence[Step | BulkError]) -> BulkRecord:
    now = time.time()
    errors = [step for step in steps if isinstance(step, BulkError)]
    advanced = structs.replace(
        record,
        done=record.done + sum(step is Step.DONE for step in steps),
        skipped=record.skipped + sum(step is Step.SKIPPED for step in steps),
        failed=record.failed + len(errors),
        errors=[*record.errors, *errors][:_MOST_ERRORS],
        updated_at=now,
    )
    if record.state is BulkState.RUNNING and advanced.handled >= record.matched:
        advanced.state, advanced.finished_at = BulkState.COMPLETED, now
    return advanced


def _in_words(record: BulkRecord) -> str:
    dealt_with = f"{record.done} done, {record.skipped} skipped, {record.failed} failed"
    return f"{record.bulk_id} ({record.action}) is {record.state}: {dealt_with} of {record.matched}"


def _error(item: str, error: PyocoError) -> BulkError:
    return BulkError(item=item, err_id=error.error.err_id, message=str(error)[:_MESSAGE_CHARS])
