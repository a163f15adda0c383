"""One run per idempotency key of a client's request: every step is a compare-and-set on the key.

Keys of deliveries to hooks and of workflow events: triggers/trigger_receipts.py.

A submission creates the key with its run's id, stores the run, marks the key as *accepted*, and responds.
What can happen meanwhile:

- Another request has the same key: it waits, for a limited time, until the key is accepted.
- The submission fails or its gateway crashes: the key stays unaccepted. The withdrawal of the submission, or
  a later request once the key is some seconds old, *settles* it. It first rewrites the key, so that the
  submission cannot accept it any more, and its run is returned to no client. Then it removes run and key;
  or, if the run has started, it accepts the key.
- A paused gateway resumes: its accept is refused, and so is its run, whose id was forbidden if it was not
  there to be removed. It responds with 503, and a retry finds the run of the key.
- The accept is stored but its ack lost: the withdrawal finds it, and keeps the run.

A bulk operation is accepted in the same way, with its record in place of the run. A key is kept for
`idempotency_ttl_sec`, the TTL of its bucket (broker/streams_and_buckets.py).

Clocks only decide when to stop waiting: a wrong one costs time, never a second run.
"""

import asyncio
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, overload

import msgspec
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords
from pyoco_server.broker.stores.runs.idempotency_keys import (
    IdempotencyKey,
    IdempotencyKeys,
    KeyKind,
    KeyRecord,
    StoredKey,
)
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import IdempotencyConflict, shortened
from pyoco_server.records.runs.bulk_models import BulkRecord
from pyoco_server.records.runs.run_models import Job, RunSnapshot
from pyoco_server.runs.lifecycle.withdrawal import remove_unstarted, remove_unstarted_bulk

# An unaccepted key of this age is settled by the next request: longer than a submission takes, including its
# timeout.
ABANDONED_SEC = 5.0
# Less than a submission may take: the rest is for storing the run if the key becomes free.
_WAIT_SEC = 1.2
_FIRST_PAUSE_SEC = 0.01
_MAX_PAUSE_SEC = 0.1


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """An idempotency key, and the digest of its request."""

    key: IdempotencyKey
    digest: str


def keyed_submission(key: str, job: Job, *compared_fields: Any) -> KeyedRequest:
    """`compared_fields`: what the request has besides its job. A repeated request must have the same."""
    return KeyedRequest(IdempotencyKey(key, job.tenant_id), payload_digest(job, *compared_fields))


def keyed_command(key: str, tenant_id: str | None, *compared_fields: Any) -> KeyedRequest:
    """`compared_fields`: the command and all of its arguments."""
    return KeyedRequest(IdempotencyKey(key, tenant_id), _digest(compared_fields))


def payload_digest(job: Job, *compared_fields: Any) -> str:
    """The same for two submissions of the same work."""
    work = (job.flow_name, job.params, job.tag, job.tags, job.timeout_sec, job.workflow_yaml_sha256)
    return _digest((*work, *compared_fields))


def _digest(compared_fields: tuple[Any, ...]) -> str:
    return sha256(msgspec.json.encode(compared_fields, order="deterministic")).hexdigest()


class KeyedRequests:
    """The run, or the bulk operation, of an idempotency key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = IdempotencyKeys(connection)
        self._store = RunStore(connection)
        self._journal = Journal(connection)
        self._bulk = BulkRecords(connection)

    async def accepted(self, request: KeyedRequest) -> KeyRecord | None:
        """The result of an earlier request with this key, if any; waits for one that is in progress."""
        backoff = _Backoff(self._connection, request.key)
        while True:
            stored = await self._keys.get(request.key)
            if stored is None or _abandoned(stored.record):
                return None
            if stored.record.accepted:
                return _check_payload(stored, request).record
            await backoff.pause()

    async def hold(
        self,
        request: KeyedRequest,
        new_id: str,
        *,
        kind: KeyKind = KeyKind.RUN,
        origin_run_id: str | None = None,
    ) -> StoredKey:
        """The key, held for this id; or as it was accepted for an earlier request with the same payload."""
        backoff = _Backoff(self._connection, request.key)
        while True:
            try:
                stored = await self._keys.get(request.key)
                if stored is None:
                    mine = KeyRecord(
                        run_id=new_id,
                        kind=kind,
                        origin_run_id=origin_run_id,
                        digest=request.digest,
                        touched_at=time.time(),
                    )
                    return await self._keys.create(request.key, mine)
                if _abandoned(stored.record):
                    await self._settle(stored)
                    continue
            except RevisionConflict:
                continue
            if stored.record.accepted:
                return _check_payload(stored, request)
            await backoff.pause()

    async def accept(self, held: StoredKey) -> None:
        """Called when the run is stored and queued. RevisionConflict if the key was settled meanwhile."""
        await self._keys.replace(held, structs.replace(held.record, accepted=True))

    @overload
    async def undo(self, key: IdempotencyKey, new_id: str) -> RunSnapshot | None: ...
    @overload
    async def undo(
        self, key: IdempotencyKey, new_id: str, *, kind: Literal[KeyKind.BULK]
    ) -> BulkRecord | None: ...
    async def undo(
        self, key: IdempotencyKey, new_id: str, *, kind: KeyKind = KeyKind.RUN
    ) -> RunSnapshot | BulkRecord | None:
        """Undo a failed request; returns its run or operation if that has started or was accepted."""
        while True:
            stored = await self._keys.get(key)
            if stored is None:
                return await self._remove_unstarted(new_id, kind)
            if stored.record.run_id != new_id:
                # The key was never held for this id, or was settled since, which removed the run; NATS may
                # have lost that.
                return await self._remove_unstarted(new_id, kind)
            if stored.record.accepted:
                return await self._created(stored.record)
            try:
                return await self._settle(stored)
            except RevisionConflict:
                continue

    async def _settle(self, stored: StoredKey) -> RunSnapshot | BulkRecord | None:
        """Accept the key if its run has started; otherwise remove both."""
        record = structs.replace(stored.record, touched_at=time.time())
        mine = await self._keys.replace(stored, record)
        started = await self._remove_unstarted(record.run_id, record.kind)
        if started is None:
            await self._keys.remove(mine)
        else:
            await self._keys.replace(mine, structs.replace(record, accepted=True))
        return started

    async def _remove_unstarted(self, created_id: str, kind: KeyKind) -> RunSnapshot | BulkRecord | None:
        if kind is KeyKind.BULK:
            return await remove_unstarted_bulk(self._bulk, created_id)
        return await remove_unstarted(self._store, self._journal, created_id)

    async def _created(self, record: KeyRecord) -> RunSnapshot | BulkRecord | None:
        if record.kind is KeyKind.BULK:
            bulk = await self._bulk.get(record.run_id)
            return None if bulk is None else bulk.record
        run = await self._store.get_from_leader(record.run_id)
        return None if run is None else run.snapshot


class _Backoff:
    """Pauses while an earlier request with the same key is in progress, for a limited time in total."""

    def __init__(self, connection: Connection, key: IdempotencyKey) -> None:
        self._connection = connection
        self._key = key
        self._deadline = time.monotonic() + _WAIT_SEC
        self._pause = _FIRST_PAUSE_SEC

    async def pause(self) -> None:
        """NatsUnavailable when the time is up."""
        if time.monotonic() > self._deadline:
            busy = f"a request with key {shortened(self._key.text)} is in progress"
            raise self._connection.unavailable(busy)
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, _MAX_PAUSE_SEC)


def _check_payload(stored: StoredKey, request: KeyedRequest) -> StoredKey:
    record = stored.record
    if record.digest == request.digest:
        return stored
    kind = "run" if record.kind is KeyKind.RUN else "bulk operation"
    key = shortened(request.key.text)
    raise IdempotencyConflict(f"{key} was used before with another payload, for {kind} {record.run_id}")


def _abandoned(record: KeyRecord) -> bool:
    return not record.accepted and abs(time.time() - record.touched_at) > ABANDONED_SEC
