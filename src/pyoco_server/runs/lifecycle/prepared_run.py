"""A run that is about to be stored: its job and its first snapshot, signed and small enough."""

import time
from collections.abc import Callable
from hashlib import sha256

from msgspec import UNSET

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.errors import FieldProblem, InvalidRequest, WorkflowTooLarge
from pyoco_server.records.runs.run_models import (
    Job,
    RunSnapshot,
    RunStatus,
    encode,
    first_snapshot,
    pending_snapshot,
)
from pyoco_server.runs.lifecycle.job_signatures import JobSignatures, signatures_of


class PreparedRun:
    __slots__ = ("job", "job_bytes", "snapshot", "snapshot_bytes")

    def __init__(self, job: Job, snapshot: RunSnapshot, signature: str) -> None:
        self.job, self.snapshot = job, snapshot
        job.signature = snapshot.signature = signature
        self.snapshot_bytes, self.job_bytes = encode(self.snapshot), encode(job)

    @property
    def is_delayed(self) -> bool:
        """Whether its job is published later, at its `start_at`."""
        return self.snapshot.status is RunStatus.SCHEDULED


async def prepare_run(
    connection: Connection, job: Job, *, clock: Callable[[], float] = time.time
) -> PreparedRun:
    """Sign the job and its first snapshot.

    Params that leave too little room in the snapshot are replaced by their digest; `keep_documents` stores
    them.
    `clock` says whether it is to start later. InvalidRequest or WorkflowTooLarge if it cannot be stored.
    """
    signatures = signatures_of(connection)
    # Half, to leave room for the states and records of the tasks.
    limit = connection.config.max_run_snapshot_bytes // 2
    prepared = await _signed(signatures, job, clock)
    if len(prepared.snapshot_bytes) > limit:
        params = encode(job.params)
        job.params_sha256, job.params_bytes = sha256(params).hexdigest(), len(params)
        prepared = await _signed(signatures, job, clock)
    if (size := len(prepared.snapshot_bytes)) > limit:
        detail = f"without its params, the run takes {size} bytes, at most {limit} fit"
        cure = "shorten its tags, or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES"
        raise InvalidRequest(detail, problems=[FieldProblem("tags", f"{detail}; {cure}")])
    _check_job_size(connection, len(prepared.job_bytes))
    return prepared


def has_documents(job: Job) -> bool:
    """Whether its flow.yaml or params are stored in the journal."""
    return job.workflow_yaml is not None or job.params_sha256 is not UNSET


async def keep_documents(journal: Journal, job: Job) -> None:
    """Store its flow.yaml and large params, which must be there before its snapshot."""
    if job.workflow_yaml is not None:
        await journal.keep_document(job.tag, job.run_id, job.workflow_yaml.encode())
    if job.params_sha256 is not UNSET:
        await journal.keep_document(job.tag, job.run_id, encode(job.params))


async def _signed(signatures: JobSignatures, job: Job, clock: Callable[[], float]) -> PreparedRun:
    snapshot = pending_snapshot(job) if job.start_at is UNSET else first_snapshot(job, clock())
    return PreparedRun(job, snapshot, await signatures.sign(snapshot))


def _check_job_size(connection: Connection, job_bytes: int) -> None:
    room = connection.max_record_bytes
    if job_bytes > room:
        raise WorkflowTooLarge(
            f"the job takes {job_bytes} bytes and the NATS server accepts messages of {room}; "
            "shorten the params or the flow.yaml, or raise max_payload in the server's configuration"
        )
