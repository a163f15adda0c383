"""Signatures of jobs: whether a stored run is still what a gateway has accepted.

A job that is queued again is rebuilt from its snapshot, and any worker may write any snapshot: its params,
its tag, its tenant. So a gateway signs the job when it accepts it, with a secret that workers cannot read,
and verifies the snapshot before it queues the run again or repeats it.

Signed is what never changes: the job as encoded, without its generation, and with the digest of its flow.yaml
in place of the file. A new field of `Job` needs a default, or no earlier run would verify.

A worker of an earlier version drops the fields of a snapshot that it does not know, and those are signed too.
Where they follow from the rest, they are restored (`_as_accepted`): the signature says whether rightly.

Runs of earlier versions have no signature. The first sweep signs those that have not ended
(runs/sweep/unsigned_runs.py). The others are trusted if they were written before that: NATS assigns the
revision of a write, and no worker can choose it.
"""

import hmac
import logging
from collections.abc import Iterator
from hashlib import blake2b, sha256
from typing import Final

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.broker.stores.shared_secret import shared_secret
from pyoco_server.broker.stores.trusted_records import TrustedRecords, trusted_records
from pyoco_server.errors import UnverifiedRun
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.params_preview import params_preview
from pyoco_server.records.runs.run_models import RunSnapshot, encode, job_of
from pyoco_server.records.value_types import LAST_SEQUENCE

log = logging.getLogger(__name__)

_DIGEST_BYTES: Final = 16
_PURPOSE: Final = b"pyoco job"


def signature_of(snapshot: RunSnapshot, secret: bytes) -> str:
    job = job_of(snapshot, None)
    job.generation, job.signature = 0, UNSET
    # As in a snapshot that was decoded: a whole number is a float there.
    job.submitted_at = float(job.submitted_at)
    if job.timeout_sec is not None:
        job.timeout_sec = float(job.timeout_sec)
    if job.start_at is not UNSET:
        job.start_at = float(job.start_at)
    if job.cause is not UNSET and job.cause.at is not None:
        job.cause = structs.replace(job.cause, at=float(job.cause.at))
    return blake2b(encode(job), key=secret, digest_size=_DIGEST_BYTES, person=_PURPOSE).hexdigest()


def _as_accepted(snapshot: RunSnapshot) -> Iterator[RunSnapshot]:
    """The snapshot, and what it may have been before a worker of an earlier version wrote it."""
    yield snapshot
    candidates = [snapshot]
    if snapshot.params_sha256 is UNSET:
        # It has written the whole params of its job in place of their beginning and digest.
        params = encode(snapshot.params)
        changes = {"params_sha256": sha256(params).hexdigest(), "params_bytes": len(params)}
        candidates.append(structs.replace(snapshot, params=params_preview(snapshot.params), **changes))
    if snapshot.keep_answers is UNSET and snapshot.origin_run_id is not None:
        candidates += [structs.replace(each, keep_answers=True) for each in candidates]
    yield from candidates[1:]


class JobSignatures:
    """The signatures of one gateway; `signatures_of` returns those of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._secret: bytes | None = None
        # How many runs were not queued because they did not verify.
        self.refused = 0
        # Before anything is submitted: a submission is bounded in time. Read again after a reconnect, since
        # a server that lost its data has another secret.
        connection.on_connect(self._read_secret)

    async def sign(self, snapshot: RunSnapshot) -> str:
        if self._secret is None:
            await self._read_secret()
        assert self._secret is not None
        return signature_of(snapshot, self._secret)

    async def is_signed(self, snapshot: RunSnapshot) -> bool:
        return hmac.compare_digest(await self.sign(snapshot), snapshot.signature or "")

    async def is_authentic(self, stored: StoredRun) -> bool:
        """Whether it is what a gateway has accepted, as far as that is known for a run without signature."""
        return await self._accepted(stored) is not None

    async def _accepted(self, stored: StoredRun) -> RunSnapshot | None:
        """The snapshot with all that was accepted, signed; None if it is not authentic."""
        for candidate in _as_accepted(stored.snapshot):
            if await self.is_signed(candidate):
                return candidate
        trusted = await self.trusted()
        if trusted is None or stored.revision <= trusted.runs:
            return structs.replace(stored.snapshot, signature=await self.sign(stored.snapshot))
        return None

    async def verified(self, stored: StoredRun) -> RunSnapshot:
        """The snapshot, signed; UnverifiedRun if it is not what a gateway has accepted.

        The run must have been read from the leader, which alone knows its revision for sure.
        """
        accepted = await self._accepted(stored)
        if accepted is not None:
            return accepted
        snapshot = stored.snapshot
        self.refused += 1
        error = UnverifiedRun(
            f"run {snapshot.run_id} is not as a gateway accepted it: its flow, params, tag, tenant or "
            "another part of its job was changed with the NATS credentials of a worker, or its signature was "
            "dropped by a worker of an earlier version"
        )
        fields = {"run_id": snapshot.run_id, "tag": snapshot.tag, "worker_id": snapshot.worker_id}
        log.error("%s", error, extra=Err.UNVERIFIED_RUN.log_fields(**fields))
        raise error

    async def trusted(self) -> TrustedRecords | None:
        return await trusted_records(self._connection)

    async def old_journal(self) -> int:
        """Up to which sequence journals of earlier versions are trusted."""
        trusted = await self.trusted()
        return LAST_SEQUENCE if trusted is None else trusted.journal

    async def _read_secret(self) -> None:
        self._secret = await shared_secret(self._connection, "jobs")


def signatures_of(connection: Connection) -> JobSignatures:
    """One for all parts of a gateway: they share the secret and the count."""
    return connection.shared(JobSignatures)
