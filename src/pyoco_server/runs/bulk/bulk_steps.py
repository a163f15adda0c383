"""What a bulk operation does to one item. Each step may be taken twice, and is then done once.

A gateway that dies between a step and the record of it leaves the step to be taken again. A cancel is asked
for once; a rerun has an idempotency key of the operation and the run. A dead letter is taken only if it is
the one that was counted: the sequences of a stream that was made anew, or restored, are those of others.
"""

from enum import Enum, auto

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.dead_letters import DeadLetters, StoredLetter
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.records.models import Job, RerunMode
from pyoco_server.records.operation_models import BulkAction, BulkItem, BulkRecord
from pyoco_server.runs.bulk.dead_letter_replay import replay_job
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.idempotency import keyed_submission
from pyoco_server.runs.lifecycle.rerun import rerun_job
from pyoco_server.runs.lifecycle.submission import Submitter
from pyoco_server.runs.lifecycle.tenancy import Caller


class Step(Enum):
    DONE = auto()
    # There was nothing to do.
    SKIPPED = auto()


class BulkSteps:
    def __init__(self, connection: Connection, submitter: Submitter) -> None:
        self._connection = connection
        self._submitter = submitter
        self._runs = RunStore(connection)
        self._journal = Journal(connection)
        self._letters = DeadLetters(connection)

    async def take(self, record: BulkRecord, item: BulkItem) -> Step:
        """Do it; a PyocoError says why it cannot be done."""
        match record.action:
            case BulkAction.CANCEL:
                return await self._cancel(record, item.name)
            case BulkAction.RERUN:
                mode = record.mode or RerunMode.START
                job = await rerun_job(self._runs, self._journal, item.name, _caller(record), mode=mode)
                await self._submit(record, job)
                return Step.DONE
            case BulkAction.REPLAY_LETTERS:
                return await self._replay(record, item)
            case BulkAction.DELETE_LETTERS:
                return await self._delete(item)

    async def _cancel(self, record: BulkRecord, run_id: str) -> Step:
        us = f"bulk:{record.bulk_id}"
        run = await cancel_run(
            self._connection, self._runs, run_id, _caller(record), by=us, reason=record.reason
        )
        return Step.DONE if run.cancel_requested_by == us else Step.SKIPPED

    async def _replay(self, record: BulkRecord, item: BulkItem) -> Step:
        stored = await self._counted_letter(item)
        if stored is None:
            return Step.SKIPPED
        mode = record.mode or RerunMode.START
        job = await replay_job(self._runs, self._journal, stored, _caller(record), mode=mode)
        await self._submit(record, job)
        if record.delete:
            await self._letters.delete(stored.seq)
        return Step.DONE

    async def _delete(self, item: BulkItem) -> Step:
        stored = await self._counted_letter(item)
        if stored is None:
            return Step.SKIPPED
        await self._letters.delete(stored.seq)
        return Step.DONE

    async def _counted_letter(self, item: BulkItem) -> StoredLetter | None:
        stored = await self._letters.get(int(item.name))
        if stored is None or item.digest not in (None, stored.digest):
            return None
        return stored

    async def _submit(self, record: BulkRecord, job: Job) -> None:
        """One new run per origin, however many letters or tries there are."""
        key = f"bulk:{record.bulk_id}:{job.origin_run_id}"
        await self._submitter.submit(job, request=keyed_submission(key, job))


def _caller(record: BulkRecord) -> Caller:
    """Whoever began the operation: it saw all of the items then, and they do not change hands."""
    return Caller(record.tenant_id, record.api_key_id, sees_all=True)
