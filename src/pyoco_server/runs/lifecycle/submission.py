"""Submitting a run: its PENDING snapshot and its job are both stored, or neither is.

Its flow.yaml, its large params, or the journal of its origin are stored first, then the snapshot, then the
job. If one of these writes fails, or its ack is lost, the run is withdrawn.
"""

import time
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import UNSET

from pyoco_server.aio.deadlines import TimeBudget
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.queue.tag_consumers import UnusableConsumers
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.idempotency_keys import KeyRecord
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.errors import (
    FieldProblem,
    InvalidRequest,
    NatsUnavailable,
    RunNotFound,
    WorkflowTooLarge,
)
from pyoco_server.records.models import Job, RerunMode, RunSnapshot, encode, new_run_id, pending_snapshot
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest, KeyedRequests
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
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
) -> Job:
    """A job with a new run id. It contains the flow.yaml; the snapshot has only its digest."""
    return Job(
        run_id=new_run_id(),
        flow_name=flow_name,
        tag=tag,
        tags=list(tags) or [tag],
        params=params or {},
        submitted_at=time.time(),
        timeout_sec=timeout_sec,
        workflow_yaml=None if workflow_yaml is None else workflow_yaml.decode("utf-8-sig"),
        workflow_yaml_sha256=None if workflow_yaml is None else sha256(workflow_yaml).hexdigest(),
        workflow_yaml_bytes=None if workflow_yaml is None else len(workflow_yaml),
    )


class _Submission:
    """A job and its snapshot, signed, encoded once."""

    __slots__ = ("job", "job_bytes", "snapshot", "snapshot_bytes")

    def __init__(self, job: Job, snapshot: RunSnapshot, signature: str) -> None:
        self.job, self.snapshot = job, snapshot
        job.signature = snapshot.signature = signature
        self.snapshot_bytes, self.job_bytes = encode(self.snapshot), encode(job)


class Submitter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = RunStore(connection)
        self._queue = WorkQueue(connection)
        self._journal = Journal(connection)
        self._keys = KeyedRequests(connection)
        self._unusable = UnusableConsumers(connection)
        self.signatures = signatures_of(connection)
        self.withdrawer = Withdrawer(connection)
        self._budget = TimeBudget(_BUDGET_SEC)

    async def start(self) -> None:
        await self.withdrawer.start()

    async def close(self) -> None:
        await self.withdrawer.close()
        self._budget.close()

    async def submitted(self, request: KeyedRequest) -> KeyRecord | None:
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
        submission = await self._fitting(job)
        if self._connection.writes.problem is not None:
            # Before anything is stored that would have to be withdrawn.
            self._connection.writes.check(self._written_subjects(job, request))
        if self._unusable.found:
            await self._unusable.check(job.tag)
        try:
            if _reuses_journal(job):
                await self._copy_journal(job)
            with self._budget.block():
                if request is None:
                    await self._store_and_queue(submission)
                    return job.run_id
                return await self._submit_keyed(submission, request)
        except TimeoutError:
            failure = self._unanswered(self._written_subjects(job, request))
        except NatsUnavailable as error:
            failure = error
        await self.withdrawer.withdraw(self._withdrawal(job, request), failure)
        return job.run_id

    async def _submit_keyed(self, submission: _Submission, request: KeyedRequest) -> str:
        job = submission.job
        held = await self._keys.hold(request, job.run_id, origin_run_id=job.origin_run_id)
        if held.record.run_id != job.run_id:
            if _reuses_journal(job):
                # It was copied for a run that will not exist.
                await self._journal.remove(job.run_id)
            return held.record.run_id
        try:
            await self._store_and_queue(submission)
            await self._keys.accept(held)
        except RevisionConflict:
            raise self._connection.unavailable("the submission took too long") from None
        return job.run_id

    async def _store_and_queue(self, submission: _Submission) -> None:
        job = submission.job
        if job.workflow_yaml is not None:
            await self._journal.keep_document(job.tag, job.run_id, job.workflow_yaml.encode())
        if job.params_sha256 is not UNSET:
            await self._journal.keep_document(job.tag, job.run_id, encode(job.params))
        revision = await self._store.create(submission.snapshot, encoded=submission.snapshot_bytes)
        await self._queue.publish(job, run_revision=revision, encoded=submission.job_bytes)

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
        subjects = [f"$KV.{config.runs_kv_bucket}.{job.run_id}", f"{config.work_subject_prefix}.{job.tag}"]
        has_document = job.workflow_yaml is not None or job.params_sha256 is not UNSET
        if has_document or _reuses_journal(job):
            subjects.append(f"{config.journal_subject_prefix}.{job.tag}.{job.run_id}")
        if request is not None:
            subjects.append(f"$KV.{config.idempotency_kv_bucket}.")
        return subjects

    async def _fitting(self, job: Job) -> _Submission:
        """The job and its snapshot. If its params leave too little room there, they go to the journal."""
        # Half, to leave room for the states and records of the tasks.
        limit = self._connection.config.max_run_snapshot_bytes // 2
        submission = await self._signed(job)
        if len(submission.snapshot_bytes) > limit:
            params = encode(job.params)
            job.params_sha256, job.params_bytes = sha256(params).hexdigest(), len(params)
            submission = await self._signed(job)
        if (size := len(submission.snapshot_bytes)) > limit:
            detail = f"without its params, the run takes {size} bytes, at most {limit} fit"
            cure = "shorten its tags, or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES"
            raise InvalidRequest(detail, problems=[FieldProblem("tags", f"{detail}; {cure}")])
        self._check_job_size(len(submission.job_bytes))
        return submission

    async def _signed(self, job: Job) -> _Submission:
        snapshot = pending_snapshot(job)
        return _Submission(job, snapshot, await self.signatures.sign(snapshot))

    def _check_job_size(self, job_bytes: int) -> None:
        room = self._connection.max_record_bytes
        if job_bytes > room:
            raise WorkflowTooLarge(
                f"the job takes {job_bytes} bytes and the NATS server accepts messages of {room}; "
                "shorten the params or the flow.yaml, or raise max_payload in the server's configuration"
            )


def _reuses_journal(job: Job) -> bool:
    return job.rerun_mode not in (None, RerunMode.START)
