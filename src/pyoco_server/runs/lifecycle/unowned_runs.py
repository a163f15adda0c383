"""Writes of a gateway to a run that no worker owns.

It ends the run, publishes its job again, releases it at its start, or continues it after a wait. Each is a
compare-and-set on the revision it was decided on: nothing is done to a run that was written since.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.queue.tag_consumers import work_subject
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.errors import NatsUnavailable, UnreadableRecord, UnverifiedRun
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import Job, Reason, RunSnapshot, RunStatus
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.ownership import apply_cancel
from pyoco_server.runs.lifecycle.stored_job import DocumentLost, stored_job
from pyoco_server.runs.lifecycle.waiting_state import cleared_wait_fields
from pyoco_server.telemetry.run_fields import remember_run

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    status: RunStatus
    reason: Reason | None
    error: str
    # The tasks whose waits expired.
    unanswered: frozenset[str] = frozenset()


class _JobLost(Exception):
    """The job of a run cannot be rebuilt from what is stored."""


class UnownedRuns:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._letters = DeadLetters(connection)
        self.store = RunStore(connection)
        self.queue = WorkQueue(connection)
        self.journal = Journal(connection)
        self.signatures = signatures_of(connection)
        # How often each repair was made.
        self.actions: Counter[str] = Counter()

    async def stored(self, run_id: str, revision: int | None = None) -> StoredRun | None:
        """The run, read from the leader; None if it is deleted, invalid, or at another revision."""
        try:
            stored = await self.store.get_from_leader(run_id)
        except UnreadableRecord:
            return None
        if stored is not None and revision not in (None, stored.revision):
            return None
        if stored is not None:
            _remember(stored.snapshot)
        return stored

    async def signed_runs(self, run_ids: Sequence[str]) -> dict[str, StoredRun]:
        """Runs as any replica knows them, read together; any of them may have been written since.

        Callers must write with a compare-and-set and re-read from the leader after a conflict.
        One without signature is left out: the leader alone knows its revision for sure.
        """
        found = await self.store.find_many(run_ids)
        signed = {run_id: run for run_id, run in found.items() if run.snapshot.signature is not UNSET}
        for stored in signed.values():
            _remember(stored.snapshot)
        return signed

    async def end(self, stored: StoredRun, ending: Ending) -> bool:
        """Write the run's end, report it, remove its message; false if the run was written since.

        A run with a cancel request ends as CANCELLED in any case.
        """
        if stored.snapshot.cancel_requested_at is not None:
            ending = Ending(RunStatus.CANCELLED, None, ending.error)
        ended = self._ended(stored.snapshot, ending)
        try:
            await self.store.replace(ended, revision=stored.revision)
        except RevisionConflict:
            return False
        except PayloadTooLarge as error:
            log.error("the end of a run cannot be stored: %s", error, extra={"run_id": ended.run_id})
            return False
        if ending.status is RunStatus.FAILED:
            await self._report_failure(ended, ending)
        else:
            self._log(ended, f"ended a cancelled run: {ending.error}")
        self.actions[ending.reason or "cancelled"] += 1
        await self._remove_message(ended)
        return True

    async def republish_job(
        self,
        stored: StoredRun,
        *,
        replaces: int | None = None,
        why: str = "the run had no job in the queue: published one",
    ) -> str | None:
        """Publish the run's job again; returns its subject, or None if the run was ended instead.

        `replaces` is the sequence of a message of it that no worker can use.
        """
        try:
            job = await self._job(stored)
            subject = await self.queue.publish_again(job, revision=stored.revision, replaces=replaces)
        except (_JobLost, PayloadTooLarge) as problem:
            error = f"the run's job was lost and cannot be published again: {problem}; submit it again"
            await self.end(stored, Ending(RunStatus.FAILED, Reason.INVALID_JOB, error))
            return None
        except UnverifiedRun as forged:
            await self._end_unverified(stored, forged)
            return None
        self._log(stored.snapshot, why)
        self.actions["job_published"] += 1
        return subject

    async def release(self, run_id: str, now: float, read: StoredRun | None = None) -> bool:
        """Start a SCHEDULED run whose time has come: once, however many gateways do it.

        `read` is the run as a replica knows it.
        """
        if read is not None and _is_due(read, now) and await self._release(read, now):
            return True
        stored = await self.stored(run_id)
        return stored is not None and _is_due(stored, now) and await self._release(stored, now)

    async def _release(self, stored: StoredRun, now: float) -> bool:
        try:
            job = await self._job(stored)
            pending = structs.replace(
                stored.snapshot, status=RunStatus.PENDING, heartbeat_at=now, updated_at=now
            )
            # Many are due at the same time: each write gives way to submits.
            await self._connection.urgent.give_way()
            revision = await self.store.replace(pending, revision=stored.revision)
            await self._connection.urgent.give_way()
            await self.queue.publish(job, run_revision=revision)
        except RevisionConflict:
            # Another gateway has released it, it was cancelled, or a replica lags.
            return False
        except (_JobLost, PayloadTooLarge) as why:
            error = f"its time has come, but its job cannot be published: {why}; submit it again"
            await self.end(stored, Ending(RunStatus.FAILED, Reason.INVALID_JOB, error))
            return False
        except UnverifiedRun as forged:
            await self._end_unverified(stored, forged)
            return False
        self.actions["released"] += 1
        return True

    async def publish_continuation(self, stored: StoredRun) -> None:
        """Publish the job that continues a run after a wait; ends the run if its job is lost."""
        try:
            await self.queue.publish_continuation(await self._job(stored))
        except (_JobLost, PayloadTooLarge) as why:
            error = f"the run has its answer, but its job cannot be published: {why}; submit it again"
            await self.end(stored, Ending(RunStatus.FAILED, Reason.INVALID_JOB, error))
        except UnverifiedRun as forged:
            await self._end_unverified(stored, forged)

    async def _end_unverified(self, stored: StoredRun, forged: UnverifiedRun) -> None:
        """A forged run is not queued, and does not come back with each sweep."""
        spec = Err.UNVERIFIED_RUN
        error = f"{spec.err_id}: {forged}. {spec.cure_en}"
        if await self.end(stored, Ending(RunStatus.FAILED, Reason.INVALID_JOB, error)):
            self.actions["unverified"] += 1

    async def _job(self, stored: StoredRun) -> Job:
        snapshot = await self.signatures.verified(stored)
        if not snapshot.tag:
            raise _JobLost("its snapshot names no tag")
        if stored.snapshot.signature is UNSET:
            # The sweep takes over the journal of an unsigned run, and the job signs this one.
            await self.journal.adopt_old(snapshot.tag, snapshot.run_id, await self.signatures.old_journal())
        try:
            return await stored_job(self.journal, snapshot)
        except DocumentLost as lost:
            raise _JobLost(f"its {lost} was not kept") from None

    async def publish_letter(self, letter: DeadLetter, tag: str) -> None:
        try:
            await self._letters.publish(letter, tag=tag)
        except NatsUnavailable as error:
            # Best effort by contract: the run's own snapshot has the same information.
            spec = Err.DLQ_PUBLISH_FAILED
            context = {"run_id": letter.run_id, "tag": tag, "reason": letter.reason}
            log.error("%s: %s", spec.en, error, extra=spec.log_fields(**context))

    def _ended(self, snapshot: RunSnapshot, ending: Ending) -> RunSnapshot:
        now = time.time()
        ended = structs.replace(
            snapshot,
            status=ending.status,
            tasks={
                name: state.when_run_ends(ending.status, unanswered=name in ending.unanswered)
                for name, state in snapshot.tasks.items()
            },
            reason=ending.reason,
            error=ending.error,
            end_time=now,
            updated_at=now,
            **cleared_wait_fields(snapshot),
        )
        room = min(self._connection.config.max_run_snapshot_bytes, self._connection.max_record_bytes)
        return compact_run_snapshot(apply_cancel(ended), room)

    async def _report_failure(self, snapshot: RunSnapshot, ending: Ending) -> None:
        spec = Err.INVALID_JOB if ending.reason is Reason.INVALID_JOB else Err.EXECUTION_FAILED
        extra = spec.log_fields(
            run_id=snapshot.run_id,
            flow_name=snapshot.flow_name,
            tag=snapshot.tag,
            worker_id=snapshot.worker_id,
            reason=ending.reason,
        )
        log.error("%s: %s", spec.en, ending.error, extra=extra)
        letter = DeadLetter(
            timestamp=time.time(),
            reason=str(ending.reason),
            error=ending.error,
            run_id=snapshot.run_id,
            flow_name=snapshot.flow_name,
            tag=snapshot.tag,
            tags=snapshot.tags,
            worker_id=snapshot.worker_id,
            num_delivered=None if snapshot.delivery is None else snapshot.delivery.number,
            subject=work_subject(self._connection.config, snapshot.tag),
            tenant_id=snapshot.tenant_id,
        )
        await self.publish_letter(letter, snapshot.tag or self._connection.config.default_tag)

    async def _remove_message(self, snapshot: RunSnapshot) -> None:
        if snapshot.delivery is not None and await self.queue.is_job_of(
            snapshot.run_id, sequence=snapshot.delivery.sequence
        ):
            await self.queue.remove(snapshot.delivery.sequence)

    def _log(self, snapshot: RunSnapshot, what: str) -> None:
        log.info(
            what, extra={"run_id": snapshot.run_id, "flow_name": snapshot.flow_name, "tag": snapshot.tag}
        )


def _is_due(stored: StoredRun, now: float) -> bool:
    run = stored.snapshot
    return run.status is RunStatus.SCHEDULED and (run.start_at or 0.0) <= now


def _remember(run: RunSnapshot) -> None:
    remember_run(run.run_id, flow_name=run.flow_name, tag=run.tag, worker_id=run.worker_id)
