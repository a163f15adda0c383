"""One run per idempotency key of a hook or a workflow event.

The key of a client's request, such as a submit: runs/lifecycle/idempotency.py.

A receipt is created with the id of the run and with its job, then the run is started, then the receipt is
marked as accepted. Whoever finds one that is not accepted starts the same job again, which has no effect if
the run exists: two gateways with the same key, or one that is killed in between, start one run.

The id of the run follows from the key. So a key whose receipt was removed early, because there were too many,
finds its run nevertheless, as long as that is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.triggers.receipt_store import ReceiptKey, ReceiptStore, StoredReceipt
from pyoco_server.errors import NatsUnavailable, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.runs.run_models import Job
from pyoco_server.records.triggers.workflow_event_models import Receipt
from pyoco_server.runs.lifecycle.durable_start import DurableStarter, run_id_for

log = logging.getLogger(__name__)

# Receipts that are marked as accepted at once.
_CONCURRENT: Final = 16

# Called with the receipt when its run is stored, and before it is marked as accepted.
BeforeAccept = Callable[[Receipt], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What a key starts. The id and the time of the job are set by the receipt."""

    key: ReceiptKey
    # Of the payload: another one with the same key is noted.
    fingerprint: str
    job: Job


@dataclass(frozen=True, slots=True)
class StartedOnce:
    run_id: str
    # Whether this request has made its receipt. False also where it has completed the start of an earlier
    # request, whose gateway died.
    is_new: bool
    # Whether the first request with this key had another payload.
    differs: bool = False


class TriggerReceipts:
    def __init__(
        self,
        connection: Connection,
        *,
        ttl_sec: float,
        clock: Callable[[], float],
        most: int | None = None,
    ) -> None:
        """`most`: how many receipts each tenant has; beyond that, the oldest are removed."""
        self._store = ReceiptStore(connection)
        self._most = most
        # Groups whose excess receipts are being removed; True: more were stored meanwhile, look once more.
        self._limiting: dict[str, bool] = {}
        # How many were removed before their time.
        self.removed_early = 0
        self._runs = RunStore(connection)
        self._starter = DurableStarter(connection)
        self._ttl_sec = ttl_sec
        self._clock = clock
        self._accepting: set[asyncio.Task[None]] = set()
        self._limit = asyncio.Semaphore(_CONCURRENT)

    async def start(self) -> None:
        """Nothing runs until the first receipt."""

    async def close(self) -> None:
        """Wait for the receipts whose runs are started."""
        if self._accepting:
            await asyncio.wait(self._accepting)

    async def find(self, key: ReceiptKey) -> StoredReceipt | None:
        return await self._store.get(key)

    async def finish(
        self, found: StoredReceipt, fingerprint: str, before_accept: BeforeAccept | None = None
    ) -> StartedOnce:
        """The run of a receipt that exists; it is started now if that is not known to be done."""
        record = await self._settle(found, before_accept)
        return StartedOnce(record.run_id, is_new=False, differs=record.fingerprint != fingerprint)

    async def start_once(
        self, request: StartRequest, before_accept: BeforeAccept | None = None
    ) -> StartedOnce:
        """Start the run of this key, unless that was done.

        NatsUnavailable means that it may or may not have been started: call again with the same key. After
        another error there is neither a run nor a receipt.
        """
        reserved = await self._reserve(request)
        if reserved is None:
            found = await self._store.get(request.key)
            if found is None:
                # It has just expired, or was removed.
                return await self.start_once(request, before_accept)
            return await self.finish(found, request.fingerprint, before_accept)
        try:
            settled = await self._settle(reserved, before_accept)
        except (PyocoError, ValueError) as error:
            if isinstance(error, NatsUnavailable) and not isinstance(error, PayloadTooLarge):
                raise
            await self._discard(reserved)
            raise
        # A receipt that was renewed for an earlier run has the expiry of that run: nothing new was started.
        return StartedOnce(settled.run_id, is_new=settled.expires_at == reserved.record.expires_at)

    async def _reserve(self, request: StartRequest) -> StoredReceipt | None:
        """None if the key is in use."""
        receipt = self._receipt(request, run_id_of(request.key))
        try:
            return await self._store.create(request.key, receipt, now=receipt.reserved_at)
        except RevisionConflict:
            return None

    def _receipt(self, request: StartRequest, run_id: str) -> Receipt:
        now = self._clock()
        return Receipt(
            run_id=run_id,
            owner=request.key.owner,
            fingerprint=request.fingerprint,
            reserved_at=now,
            expires_at=now + self._ttl_sec,
            job=structs.replace(request.job, run_id=run_id, submitted_at=now),
        )

    async def _ensure(self, stored: StoredReceipt) -> bool:
        assert stored.record.job is not None
        # `ensure_run` signs the job, and may move its params.
        return await self._starter.ensure_run(structs.replace(stored.record.job))

    async def _settle(self, stored: StoredReceipt, before_accept: BeforeAccept | None) -> Receipt:
        """Start the run of a receipt that is not accepted, and accept it; the receipt as it is then.

        Whoever has reserved the key does this, and everybody who finds it meanwhile.
        """
        while stored.record.job is not None:
            is_started = await self._ensure(stored)
            earlier_at = None if is_started else await self._earlier_run(stored.record)
            if earlier_at is None:
                await self._complete(stored, before_accept)
                break
            renewed = self._renewed(stored, earlier_at)
            try:
                stored = await self._store.replace(stored, renewed, now=self._clock())
            except RevisionConflict:
                found = await self._store.get(stored.key)
                if found is None:
                    # Another one has settled it, and it was removed since.
                    return renewed
                stored = found
        return stored.record

    async def _earlier_run(self, record: Receipt) -> float | None:
        """When the run of an earlier receipt of this key was submitted; None if the run is of this one."""
        run = await self._runs.get_from_leader(record.run_id)
        if run is not None:
            submitted_at = run.snapshot.submitted_at
            return None if submitted_at == record.reserved_at else submitted_at
        # It was deleted, and its id cannot be used for a while.
        deleted_at = await self._runs.deleted_at(record.run_id)
        return 0.0 if deleted_at is not None and deleted_at < record.reserved_at else None

    def _renewed(self, stored: StoredReceipt, earlier_at: float) -> Receipt:
        """The earlier receipt was removed early, and its run counts; or had expired, and a new run starts.

        The same for everybody who settles it.
        """
        record = stored.record
        if earlier_at > record.reserved_at - self._ttl_sec:
            return structs.replace(record, expires_at=earlier_at + self._ttl_sec, job=None)
        assert record.job is not None
        run_id = run_id_of(stored.key, record.reserved_at)
        return structs.replace(record, run_id=run_id, job=structs.replace(record.job, run_id=run_id))

    async def _discard(self, reserved: StoredReceipt) -> None:
        """Free a key whose run cannot be stored."""
        found = await self._store.get(reserved.key)
        if found is not None and found.record.reserved_at == reserved.record.reserved_at:
            await self._store.remove(found)

    async def _complete(self, stored: StoredReceipt, before_accept: BeforeAccept | None) -> None:
        """Mark it as accepted, unless what comes before fails: then a repeated event does both."""
        try:
            if before_accept is not None:
                await before_accept(stored.record)
        except NatsUnavailable as error:
            _log_unaccepted(stored, error)
            return
        # In the background: a receipt that is not accepted costs a repeated event a few reads.
        task = asyncio.create_task(self._accept(stored))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _accept(self, stored: StoredReceipt) -> None:
        async with self._limit:
            try:
                accepted = structs.replace(stored.record, job=None)
                await self._store.replace(stored, accepted, now=self._clock())
                await self._remove_excess(stored.key.group)
            except RevisionConflict:
                log.debug("another gateway has accepted the receipt", extra={"run_id": stored.record.run_id})
            except NatsUnavailable as error:
                _log_unaccepted(stored, error)

    async def _remove_excess(self, group: str) -> None:
        """One look at a time is enough for all receipts that are stored meanwhile."""
        if self._most is None:
            return
        if group in self._limiting:
            self._limiting[group] = True
            return
        again = True
        try:
            while again:
                self._limiting[group] = False
                removed = await self._store.remove_oldest(group, keep=self._most)
                again = self._limiting[group]
                self._report_removed(removed)
        finally:
            del self._limiting[group]

    def _report_removed(self, removed: int) -> None:
        if removed:
            self.removed_early += removed
            log.warning(
                "%d receipts were removed before their time, because there are more than %s: an event with "
                "one of these keys is known as a duplicate only while its run is stored. Raise "
                "AX_WORKFLOW_EVENT_MAX_RECEIPTS",
                removed,
                self._most,
            )


def _log_unaccepted(stored: StoredReceipt, error: NatsUnavailable) -> None:
    extra = Err.NATS_UNAVAILABLE.log_fields(run_id=stored.record.run_id)
    log.warning("the receipt is not marked as accepted yet: %s", error, extra=extra)


def run_id_of(key: ReceiptKey, again_at: float = 0.0) -> str:
    """The same in every gateway; another one where the key starts a run again after its time to live."""
    owner = f"{key.tenant_id or NO_TENANT}:{key.owner}"
    return run_id_for(CauseKind.EVENT, owner, again_at, key.text)
