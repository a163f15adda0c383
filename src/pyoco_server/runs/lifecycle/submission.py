"""Submitting a run: its PENDING snapshot and its job are both stored, or neither is.

The flow.yaml of the run, its large params, or the journal of its origin are stored first, then the snapshot,
then the job. If one of these writes fails, or its ack is lost, the run is withdrawn.

A run with a later start is stored as SCHEDULED, without a job (runs/sweep/delayed_starts.py).
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import UNSET, UnsetType

from pyoco_server.aio.deadlines import BlockTimeouts
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.queue.tag_consumers import UnusableConsumers, work_subject
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.idempotency_keys import KeyRecord
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, RunNotFound
from pyoco_server.records.runs.causes import Cause
from pyoco_server.records.runs.run_models import Job, RerunMode, RunSnapshot, new_run_id
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest, KeyedRequests
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.prepared_run import (
    PreparedRun,
    has_documents,
    keep_documents,
    prepare_run,
)
from pyoco_server.runs.lifecycle.withdrawal import (
    BEFORE_RESPONSE_SEC,
    Undo,
    Withdrawal,
    Withdrawer,
    remove_unstarted,
)

# A response within 2 s is promised; the rest is for the withdrawal and the network.
_BUDGET_SEC = 1.8 - BEFORE_RESPONSE_SEC


def new_job(
    *,
    flow_name: str,
    tag: str,
    tags: Sequence[str] = (),
    params: dict[str, Any] | None = None,
    timeout_sec: float | None = None,
    workflow_yaml: bytes | None = None,
    run_id: str | None = None,
    cause: Cause | UnsetType = UNSET,
    start_at: float | UnsetType = UNSET,
) -> Job:
    """A job, with a new run id by default. It contains the flow.yaml; the snapshot has only its digest."""
    return Job(
        run_id=run_id or new_run_id(),
        flow_name=flow_name,
        tag=tag,
        tags=list(tags) or [tag],
        params=params or {},
        submitted_at=time.time(),
        timeout_sec=timeout_sec,
        cause=cause,
        start_at=start_at,
        workflow_yaml=None if workflow_yaml is None else workflow_yaml.decode("utf-8-sig"),
        workflow_yaml_sha256=None if workflow_yaml is None else sha256(workflow_yaml).hexdigest(),
        workflow_yaml_bytes=None if workflow_yaml is None else len(workflow_yaml),
    )


class Submitter:
    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` says when a run is submitted, and whether it is to start later."""
        self._connection = connection
        self._clock = clock
        self._store = RunStore(connection)
        self._queue = WorkQueue(connection)
        self._journal = Journal(connection)
        self._keys = KeyedRequests(connection)
        self._unusable = UnusableConsumers(connection)
        self.signatures = signatures_of(connection)
        self.withdrawer = Withdrawer(connection)
        self._timeouts = BlockTimeouts(_BUDGET_SEC)

    async def start(self) -> None:
        await self.withdrawer.start()

    async def close(self) -> None:
        await self.withdrawer.close()
        self._timeouts.close()

    async def earlier_submission(self, request: KeyedRequest) -> KeyRecord | None:
        """The run of an earlier request with this key, if any."""
        return await self._keys.accepted(request)

    async def submit(self, job: Job, *, request: KeyedRequest | None = None) -> str:
        """The id of the stored run: the job's, or that of an earlier request with the same key.

        NatsUnavailable means that the job's run will not exist; see withdrawal.py for the exception.
        """
        if not self._connection.ready:
            # In the first second of a gateway its streams may not be there yet.
            await self._connection.wait_while_starting(_BUDGET_SEC)
        if not self._connection.ready:
            raise self._connection.unavailable()
        # By the clock that gateways share: events count from then on.
        job.submitted_at = self._clock()
        prepared = await prepare_run(self._connection, job, clock=self._clock)
        if self._connection.writes.problem is not None:
            # Before anything is stored that would have to be withdrawn.
            self._connection.writes.check(self._written_subjects(job, request))
        if self._unusable.found:
            await self._unusable.check(job.tag)
        try:
            if _reuses_journal(job):
                await self._copy_journal(job)
            with self._connection.urgent, self._timeouts.limit():
                if request is None:
                    await self._store_and_queue(prepared)
                    return job.run_id
                return await self._submit_keyed(prepared, request)
        except TimeoutError:
            failure = self._unanswered(self._written_subjects(job, request))
        except NatsUnavailable as error:
            failure = error
        await self.withdrawer.withdraw_or_keep(self._withdrawal(job, request), failure)
        # It was not withdrawn: a worker has started it already, and only the acknowledgement was lost.
        return job.run_id

    async def _submit_keyed(self, prepared: PreparedRun, request: KeyedRequest) -> str:
        job = prepared.job
        held = await self._keys.hold(request, job.run_id, origin_run_id=job.origin_run_id)
        if held.record.run_id != job.run_id:
            if _reuses_journal(job):
                # It was copied for a run that will not exist.
                await self._journal.remove(job.run_id)
            return held.record.run_id
        try:
            await self._store_and_queue(prepared)
            await self._keys.accept(held)
        except RevisionConflict:
            raise self._connection.unavailable("the submission took too long") from None
        return job.run_id

    async def _store_and_queue(self, prepared: PreparedRun) -> None:
        job = prepared.job
        if has_documents(job):
            await keep_documents(self._journal, job)
        revision = await self._store.create(prepared.snapshot, encoded=prepared.snapshot_bytes)
        if not prepared.is_delayed:
            await self._queue.publish(job, run_revision=revision, encoded=prepared.job_bytes)

    async def _copy_journal(self, job: Job) -> None:
        """Not part of the time budget, because a journal may be large."""
        origin = job.origin_run_id
        if origin is None:
            return
        old_up_to = await self.signatures.old_journal()
        # The journal has one tag: results of other workers are never copied to those of this one.
        await self._journal.copy(job.tag, origin, job.run_id, old_up_to=old_up_to)
        if not await self._store.exists(origin):
            # The key is deleted before the journal: if the key exists, the copy is complete.
            await self._journal.remove(job.run_id)
            raise RunNotFound(f"run {origin} was removed while its journal was copied")

    def _withdrawal(self, job: Job, request: KeyedRequest | None) -> Withdrawal[RunSnapshot]:
        undo: Undo[RunSnapshot] = partial(remove_unstarted, self._store, self._journal, job.run_id)
        if request is not None:
            undo = partial(self._keys.undo, request.key, job.run_id)
        fields = {"run_id": job.run_id, "flow_name": job.flow_name, "tag": job.tag}
        return Withdrawal(name=f"run {job.run_id}", undo=undo, keyed=request is not None, log_fields=fields)

    def _unanswered(self, subjects: list[str]) -> NatsUnavailable:
        """The error when the time budget is used up; which of these is not answered is not known."""
        known = [self._connection.writes.unanswered(subject) for subject in subjects]
        unknown = self._connection.unavailable(f"no response within {_BUDGET_SEC:g} s")
        return next(filter(None, known), unknown)

    def _written_subjects(self, job: Job, request: KeyedRequest | None) -> list[str]:
        config = self._connection.config
        subjects = [f"$KV.{config.runs_kv_bucket}.{job.run_id}", work_subject(config, job.tag)]
        if has_documents(job) or _reuses_journal(job):
            subjects.append(f"{config.journal_subject_prefix}.{job.tag}.{job.run_id}")
        if request is not None:
            subjects.append(f"$KV.{config.idempotency_kv_bucket}.")
        return subjects


def _reuses_journal(job: Job) -> bool:
    return job.rerun_mode not in (None, RerunMode.START)
