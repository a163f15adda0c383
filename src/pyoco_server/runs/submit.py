"""Accepting a run: its PENDING snapshot and its job are both stored, or the caller is told that neither is.

The snapshot is written first. When the job then cannot be published, or an answer is lost on the way, the
run is withdrawn: deleted if nobody has begun it. Withdrawing needs NATS as well, so it happens in the
background and outlives an outage.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from pyoco_server.background import repeat
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.publishing import RevisionConflict
from pyoco_server.broker.run_store import RunStore
from pyoco_server.broker.work_queue import WorkQueue
from pyoco_server.errors import Err, FieldProblem, InvalidRequest, NatsUnavailable, WorkflowTooLarge
from pyoco_server.models import Job, RunStatus, encode, new_run_id, pending_snapshot

log = logging.getLogger(__name__)

# An answer within 2 s is promised; the rest is for the way to the client.
_BUDGET_SEC = 1.8


def new_job(
    *,
    flow_name: str,
    tag: str,
    tags: Sequence[str] = (),
    params: dict[str, Any] | None = None,
    workflow_yaml: bytes | None = None,
) -> Job:
    """A job with an id of its own; `flow.yaml` is carried in it, the snapshot keeps its digest only."""
    return Job(
        run_id=new_run_id(),
        flow_name=flow_name,
        tag=tag,
        tags=list(tags) or [tag],
        params=params or {},
        submitted_at=time.time(),
        workflow_yaml=None if workflow_yaml is None else workflow_yaml.decode("utf-8-sig"),
        workflow_yaml_sha256=None if workflow_yaml is None else sha256(workflow_yaml).hexdigest(),
        workflow_yaml_bytes=None if workflow_yaml is None else len(workflow_yaml),
    )


class Submitter:
    """Stores runs, and withdraws those whose submission failed half-way."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = RunStore(connection)
        self._queue = WorkQueue(connection)
        self._to_withdraw: asyncio.Queue[Job] = asyncio.Queue()
        self._withdrawer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._withdrawer = asyncio.create_task(repeat("withdraw", self._withdraw_next), name="withdraw")

    async def close(self) -> None:
        """Stop; runs that could not be withdrawn are named, for the operator."""
        if self._withdrawer is not None:
            self._withdrawer.cancel()
            await asyncio.gather(self._withdrawer, return_exceptions=True)
        while not self._to_withdraw.empty():
            _report_orphan(self._to_withdraw.get_nowait(), "the gateway stops before it could withdraw it")

    async def submit(self, job: Job) -> None:
        """Store snapshot and job; NatsUnavailable means that the run will not exist."""
        if not self._connection.ready:
            raise self._connection.unavailable()
        snapshot = pending_snapshot(job)
        self._check_size(job, len(encode(snapshot)), len(encode(job)))
        try:
            async with asyncio.timeout(_BUDGET_SEC):
                revision = await self._store.create(snapshot)
                await self._queue.publish(job, run_revision=revision)
        except TimeoutError:
            self._to_withdraw.put_nowait(job)
            raise self._connection.unavailable(f"no answer within {_BUDGET_SEC:g} s") from None
        except NatsUnavailable:
            self._to_withdraw.put_nowait(job)
            raise

    def _check_size(self, job: Job, snapshot_bytes: int, job_bytes: int) -> None:
        # Half, so that the states and records of the run's tasks find room beside its params.
        limit = self._connection.config.max_run_snapshot_bytes // 2
        if snapshot_bytes > limit:
            detail = f"the run's params take {snapshot_bytes} bytes, at most {limit} fit"
            cure = "store large data elsewhere and pass a reference, or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES"
            raise InvalidRequest(detail, problems=[FieldProblem("params", f"{detail}; {cure}")])
        room = self._connection.max_record_bytes
        if job_bytes > room:
            raise WorkflowTooLarge(
                f"the job takes {job_bytes} bytes and the NATS server takes messages of {room}; "
                "shorten the file, or raise max_payload in the server's configuration"
            )

    async def _withdraw_next(self) -> None:
        job = await self._to_withdraw.get()
        try:
            await self._connection.wait_ready()
            await self._withdraw(job)
        except NatsUnavailable:
            self._to_withdraw.put_nowait(job)
        except BaseException:
            self._to_withdraw.put_nowait(job)
            raise

    async def _withdraw(self, job: Job) -> None:
        while True:
            stored = await self._store.get_from_leader(job.run_id)
            if stored is None:
                return
            if stored.snapshot.status is not RunStatus.PENDING:
                _report_orphan(
                    job, f"a worker began it before it was withdrawn; it is {stored.snapshot.status}"
                )
                return
            try:
                await self._store.delete(job.run_id, revision=stored.revision)
            except RevisionConflict:
                continue
            log.info("withdrew a run whose submission had failed", extra={"run_id": job.run_id})
            return


def _report_orphan(job: Job, why: str) -> None:
    log.error(
        "%s: run %s was answered with an error: %s",
        Err.ORPHAN_RUN.en,
        job.run_id,
        why,
        extra=Err.ORPHAN_RUN.log_fields(run_id=job.run_id, flow_name=job.flow_name, tag=job.tag),
    )
