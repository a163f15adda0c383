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

Clocks only say when to stop waiting for somebody else: a wrong one costs time, never a second run.
"""

import asyncio
import time
from hashlib import sha256

import msgspec
from msgspec import structs

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.idempotency_keys import IdempotencyKey, IdempotencyKeys, KeyRecord, StoredKey
from pyoco_server.broker.journal import Journal
from pyoco_server.broker.publishing import RevisionConflict
from pyoco_server.broker.run_store import RunStore
from pyoco_server.errors import IdempotencyConflict, shortened
from pyoco_server.models import Job, RunSnapshot
from pyoco_server.runs.withdrawal import remove_unbegun

# Longer than a submission lasts, also one that fails at the end of its time.
ABANDONED_SEC = 5.0
# Less than a submission may take: what is left is for storing the run if the key becomes free.
_PATIENCE_SEC = 1.2
_FIRST_PAUSE_SEC = 0.01
_LONGEST_PAUSE_SEC = 0.1


def payload_digest(job: Job) -> str:
    """The same for two jobs that ask for the same work."""
    asked = (job.flow_name, job.params, job.tag, job.tags, job.timeout_sec, job.workflow_yaml_sha256)
    return sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


class KeyedRuns:
    """Which run an idempotency key stands for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = IdempotencyKeys(connection)
        self._store = RunStore(connection)
        self._journal = Journal(connection)

    async def hold(self, key: IdempotencyKey, job: Job) -> StoredKey:
        """The key, held for this job; or as it was accepted for an earlier job of the same payload."""
        digest = payload_digest(job)
        deadline = time.monotonic() + _PATIENCE_SEC
        pause = _FIRST_PAUSE_SEC
        while True:
            try:
                stored = await self._keys.get(key)
                if stored is None:
                    mine = KeyRecord(run_id=job.run_id, digest=digest, touched_at=time.time())
                    return await self._keys.create(key, mine)
                if _abandoned(stored.record):
                    await self._settle(stored)
                    continue
            except RevisionConflict:
                continue
            if stored.record.accepted:
                if stored.record.digest != digest:
                    was_for = f"{shortened(key.text)} came first with another payload, for run"
                    raise IdempotencyConflict(f"{was_for} {stored.record.run_id}")
                return stored
            if time.monotonic() > deadline:
                busy = f"a submission with key {shortened(key.text)} is under way"
                raise self._connection.unavailable(busy)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SEC)

    async def accept(self, held: StoredKey) -> None:
        """The run is stored and queued: let the key stand for it. RevisionConflict if it was taken away."""
        await self._keys.replace(held, structs.replace(held.record, accepted=True))

    async def give_up(self, key: IdempotencyKey, run_id: str) -> RunSnapshot | None:
        """Undo a submission that failed; the run, if the key stands for it all the same."""
        while True:
            stored = await self._keys.get(key)
            if stored is None:
                return await remove_unbegun(self._store, self._journal, run_id)
            if stored.record.run_id != run_id:
                # The key was never held for this run, or whoever took it has removed the run first.
                return None
            if stored.record.accepted:
                run = await self._store.get_from_leader(run_id)
                return None if run is None else run.snapshot
            try:
                return await self._settle(stored)
            except RevisionConflict:
                continue

    async def _settle(self, stored: StoredKey) -> RunSnapshot | None:
        """Decide what became of an unaccepted run: it has begun and is the key's, or both are removed."""
        record = structs.replace(stored.record, touched_at=time.time())
        mine = await self._keys.replace(stored, record)
        begun = await remove_unbegun(self._store, self._journal, record.run_id)
        if begun is None:
            await self._keys.remove(mine)
        else:
            await self._keys.replace(mine, structs.replace(record, accepted=True))
        return begun


def _abandoned(record: KeyRecord) -> bool:
    return not record.accepted and abs(time.time() - record.touched_at) > ABANDONED_SEC
