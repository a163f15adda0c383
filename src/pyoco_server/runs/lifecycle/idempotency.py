"""One run per idempotency key, whoever fails on the way: every step is a compare-and-set on the key.

A submission creates the key with its run's id, stores the run, and answers only when it has marked the key
as *accepted*. What can happen meanwhile:

- Others come with the same key: they wait, a moment, until it is accepted, and answer with its run.
- It fails or its gateway dies: the key is left unaccepted. Whoever finds it so (the withdrawal of the failed
  submission, or a later submission once the key was left untouched for some seconds) *settles* it. Writing
  the key anew comes first, which takes it from everybody else: from here on the first submission cannot mark
  it, so nobody has been or will be answered with its run. Then the run is removed for good and the key with
  it; or the run has begun, and then the key stands for it.
- A gateway that slept through all this wakes up: its mark is refused, and so is its run, whose id was
  forbidden when it was not there to be removed. It answers 503, and the retry finds the run of the key.
- The mark is stored but its answer lost: the withdrawal finds it, and leaves the run alone.

A bulk operation is accepted in the same way: its record takes the place of the run.

Clocks only say when to stop waiting for somebody else: a wrong one costs time, never a second run.
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
from pyoco_server.broker.stores.bulk_records import BulkRecords
from pyoco_server.broker.stores.idempotency_keys import (
    IdempotencyKey,
    IdempotencyKeys,
    KeyKind,
    KeyRecord,
    StoredKey,
)
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.errors import IdempotencyConflict, shortened
from pyoco_server.records.models import Job, RunSnapshot
from pyoco_server.records.operation_models import BulkRecord
from pyoco_server.runs.lifecycle.withdrawal import remove_unstarted, remove_unstarted_bulk

# Longer than a submission lasts, also one that fails at the end of its time.
ABANDONED_SEC = 5.0
# Less than a submission may take: what is left is for storing the run if the key becomes free.
_PATIENCE_SEC = 1.2
_FIRST_PAUSE_SEC = 0.01
_LONGEST_PAUSE_SEC = 0.1


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request that came with an idempotency key, and the digest of what it asks for."""

    key: IdempotencyKey
    digest: str


def keyed_submission(key: str, job: Job) -> KeyedRequest:
    """The submission of this job under a key of the job's tenant."""
    return KeyedRequest(IdempotencyKey(key, job.tenant_id), payload_digest(job))


def keyed_command(key: str, tenant_id: str | None, *asked: Any) -> KeyedRequest:
    """A command under a key of the caller's tenant; `asked` names the command and all that it was given."""
    return KeyedRequest(IdempotencyKey(key, tenant_id), _digest(asked))


def payload_digest(job: Job) -> str:
    """The same for two jobs that ask for the same work."""
    return _digest((job.flow_name, job.params, job.tag, job.tags, job.timeout_sec, job.workflow_yaml_sha256))


def _digest(asked: tuple[Any, ...]) -> str:
    return sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


class KeyedRequests:
    """Which run, or which bulk operation, an idempotency key stands for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = IdempotencyKeys(connection)
        self._store = RunStore(connection)
        self._journal = Journal(connection)
        self._bulk = BulkRecords(connection)

    async def accepted(self, request: KeyedRequest) -> KeyRecord | None:
        """What an earlier request with this key was answered with; None when there was none.

        One that is under way is waited for, so that its repetition needs no work of its own.
        """
        waiting = _Waiting(self._connection, request.key)
        while True:
            stored = await self._keys.get(request.key)
            if stored is None or _abandoned(stored.record):
                return None
            if stored.record.accepted:
                return _of_same_payload(stored, request).record
            await waiting.pause()

    async def hold(
        self,
        request: KeyedRequest,
        new_id: str,
        *,
        kind: KeyKind = KeyKind.RUN,
        origin_run_id: str | None = None,
    ) -> StoredKey:
        """The key, held for this id; or as it was accepted for an earlier request of the same payload."""
        waiting = _Waiting(self._connection, request.key)
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
                return _of_same_payload(stored, request)
            await waiting.pause()

    async def accept(self, held: StoredKey) -> None:
        """The run is stored and queued: let the key stand for it. RevisionConflict if it was taken away."""
        await self._keys.replace(held, structs.replace(held.record, accepted=True))

    @overload
    async def give_up(self, key: IdempotencyKey, new_id: str) -> RunSnapshot | None: ...
    @overload
    async def give_up(
        self, key: IdempotencyKey, new_id: str, *, kind: Literal[KeyKind.BULK]
    ) -> BulkRecord | None: ...
    async def give_up(
        self, key: IdempotencyKey, new_id: str, *, kind: KeyKind = KeyKind.RUN
    ) -> RunSnapshot | BulkRecord | None:
        """Undo a request that failed; what it made, if the key stands for it all the same."""
        while True:
            stored = await self._keys.get(key)
            if stored is None:
                return await self._remove_unbegun(new_id, kind)
            if stored.record.run_id != new_id:
                # The key was never held for this id, or whoever took it has removed what it stood for first.
                if kind is KeyKind.RUN:
                    await self._journal.remove(new_id)
                return None
            if stored.record.accepted:
                return await self._made(stored.record)
            try:
                return await self._settle(stored)
            except RevisionConflict:
                continue

    async def _settle(self, stored: StoredKey) -> RunSnapshot | BulkRecord | None:
        """Decide what became of an unaccepted run: it has begun and is the key's, or both are removed."""
        record = structs.replace(stored.record, touched_at=time.time())
        mine = await self._keys.replace(stored, record)
        begun = await self._remove_unbegun(record.run_id, record.kind)
        if begun is None:
            await self._keys.remove(mine)
        else:
            await self._keys.replace(mine, structs.replace(record, accepted=True))
        return begun

    async def _remove_unbegun(self, made_id: str, kind: KeyKind) -> RunSnapshot | BulkRecord | None:
        if kind is KeyKind.BULK:
            return await remove_unstarted_bulk(self._bulk, made_id)
        return await remove_unstarted(self._store, self._journal, made_id)

    async def _made(self, record: KeyRecord) -> RunSnapshot | BulkRecord | None:
        if record.kind is KeyKind.BULK:
            bulk = await self._bulk.get(record.run_id)
            return None if bulk is None else bulk.record
        run = await self._store.get_from_leader(record.run_id)
        return None if run is None else run.snapshot


class _Waiting:
    """Pauses while an earlier request with the same key is under way, for a limited time in total."""

    def __init__(self, connection: Connection, key: IdempotencyKey) -> None:
        self._connection = connection
        self._key = key
        self._deadline = time.monotonic() + _PATIENCE_SEC
        self._pause = _FIRST_PAUSE_SEC

    async def pause(self) -> None:
        """NatsUnavailable when the time is up."""
        if time.monotonic() > self._deadline:
            busy = f"a request with key {shortened(self._key.text)} is under way"
            raise self._connection.unavailable(busy)
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SEC)


def _of_same_payload(stored: StoredKey, request: KeyedRequest) -> StoredKey:
    record = stored.record
    if record.digest == request.digest:
        return stored
    made = "run" if record.kind is KeyKind.RUN else "bulk operation"
    was_for = f"{shortened(request.key.text)} came first with another payload, for {made}"
    raise IdempotencyConflict(f"{was_for} {record.run_id}")


def _abandoned(record: KeyRecord) -> bool:
    return not record.accepted and abs(time.time() - record.touched_at) > ABANDONED_SEC
