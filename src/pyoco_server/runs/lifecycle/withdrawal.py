"""Withdrawing what a failed request has stored, unless it has started.

If NATS is available, that happens before the error response. Otherwise it happens in the background, after
the outage, and is lost if the process is killed: then a run may be executed after a 503, and only an
idempotency key makes a retry safe.

A server that loses its power loses what it has not written to disk: what was withdrawn is then stored again.
So each withdrawal is repeated after an interruption, for as long as it can be lost.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.bulk_models import BulkRecord
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus

log = logging.getLogger(__name__)

# How long the error response waits for it.
BEFORE_RESPONSE_SEC: Final = 0.2
# Between two tries while NATS is available but does not store.
_RETRY_SEC: Final = 0.5
# How soon an interruption is noticed: before a sweep queues a run without a job.
_POLL_SEC: Final = 0.5
# For so long, an idle server keeps a message in memory alone: `sync_interval` of nats-server.
_REPEATED_SEC: Final = 120.0
_MAX_REPEATED: Final = 1000
_UNCONFIRMED: Final = (
    "whether it was stored is not known; if so, this gateway withdraws it when NATS is back, unless it is "
    "killed before: send an Idempotency-Key to be able to repeat it safely"
)

Created = TypeVar("Created", bound=RunSnapshot | BulkRecord)
# Returns what has started and stays; None when it was removed.
Undo = Callable[[], Awaitable[Created | None]]


async def remove_unstarted(store: RunStore, journal: Journal, run_id: str) -> RunSnapshot | None:
    """Remove the run, and forbid its id; returns the run if it has started."""
    while True:
        stored = await store.get_from_leader(run_id)
        # A PENDING run may have started before, and wait in the queue with an answer.
        if stored is not None and not _is_unstarted(stored.snapshot):
            return stored.snapshot
        if await _remove_or_forbid(store, run_id, None if stored is None else stored.revision):
            await journal.remove(run_id)
            return None


def _is_unstarted(snapshot: RunSnapshot) -> bool:
    return snapshot.status in (RunStatus.PENDING, RunStatus.SCHEDULED) and snapshot.start_time is None


async def remove_unstarted_bulk(records: BulkRecords, bulk_id: str) -> BulkRecord | None:
    """Remove the operation, and forbid its id; returns the operation if it has started."""
    while True:
        stored = await records.get(bulk_id)
        if stored is not None and stored.record.has_started:
            return stored.record
        if await _remove_or_forbid(records, bulk_id, None if stored is None else stored.revision):
            return None


async def _remove_or_forbid(records: RunStore | BulkRecords, key: str, revision: int | None) -> bool:
    """Remove this revision, or forbid the id if there is none; False if it was written meanwhile."""
    try:
        if revision is None:
            # A write in flight must not succeed.
            await records.forbid(key)
        else:
            await records.delete(key, revision=revision)
    except RevisionConflict:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal(Generic[Created]):
    # For log lines: "run 9b1d...".
    name: str
    undo: Undo[Created]
    # In place of `undo` after the error response.
    undo_late: Undo[Created] | None = None
    # Whether a retry is safe in any case.
    keyed: bool = False
    log_fields: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Withdrawn:
    """`interruptions`: the connection's count of them before it was withdrawn; `at`: the monotonic time."""

    withdrawal: Withdrawal[Any]
    interruptions: int
    at: float


class Withdrawer:
    """Withdraws at once if NATS is available; otherwise in the background, until it succeeds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: asyncio.Queue[Withdrawal[Any]] = asyncio.Queue()
        self._loop = BackgroundLoop("withdraw", self._next)
        # By name, the oldest first.
        self._withdrawn: dict[str, _Withdrawn] = {}
        self._repeating = BackgroundLoop("withdraw again", self._repeat)

    async def start(self) -> None:
        self._loop.start()
        self._repeating.start()

    async def close(self) -> None:
        """Stop; logs what could not be withdrawn."""
        await self._loop.close()
        await self._repeating.close()
        while not self._waiting.empty():
            _report_orphan(self._waiting.get_nowait(), "the gateway stopped before it could withdraw it")

    async def withdraw_or_keep(self, withdrawal: Withdrawal[Created], failure: NatsUnavailable) -> Created:
        """Withdraw and raise the failure; or return what was created, if it has started: nothing failed."""
        interruptions = self._connection.interruptions
        try:
            async with asyncio.timeout(BEFORE_RESPONSE_SEC):
                started = await withdrawal.undo()
        except (NatsUnavailable, TimeoutError) as error:
            log.info(
                "%s is withdrawn when NATS is available: %s",
                withdrawal.name,
                error,
                extra=dict(withdrawal.log_fields),
            )
            self._waiting.put_nowait(withdrawal)
            if not withdrawal.keyed:
                failure.detail = f"{failure.detail}; {_UNCONFIRMED}"
            raise failure from None
        except BaseException:
            self._waiting.put_nowait(withdrawal)
            raise
        if started is None:
            self._remember(withdrawal, interruptions)
            raise failure
        log.info(
            "%s is %s: the ack was lost, not the write",
            withdrawal.name,
            _state_of(started),
            extra=dict(withdrawal.log_fields),
        )
        return started

    async def _next(self) -> None:
        withdrawal = await self._waiting.get()
        try:
            await self._connection.wait_ready()
            await self._withdraw_late(withdrawal)
        except NatsUnavailable:
            self._waiting.put_nowait(withdrawal)
            await asyncio.sleep(_RETRY_SEC)
        except BaseException:
            self._waiting.put_nowait(withdrawal)
            raise

    async def _repeat(self) -> None:
        """Withdraw again what NATS may have lost."""
        await self._repeating.pause(_POLL_SEC if self._withdrawn else None)
        await self._connection.wait_ready()
        oldest = time.monotonic() - _REPEATED_SEC
        for name, withdrawn in list(self._withdrawn.items()):
            if withdrawn.at < oldest:
                del self._withdrawn[name]
            elif withdrawn.interruptions != self._connection.interruptions:
                try:
                    await self._withdraw_late(withdrawn.withdrawal)
                except NatsUnavailable as error:
                    log.debug("%s is withdrawn again later: %s", name, error)
                    return

    async def _withdraw_late(self, withdrawal: Withdrawal[Any]) -> None:
        """After the error response."""
        interruptions = self._connection.interruptions
        undo = withdrawal.undo_late or withdrawal.undo
        try:
            started = await undo()
        except UnreadableRecord as error:
            _report_orphan(withdrawal, f"it cannot be withdrawn: {error}")
        else:
            if started is None:
                self._remember(withdrawal, interruptions)
                return
            _report_orphan(withdrawal, f"it was too late to withdraw it; it is {_state_of(started)}")
        self._withdrawn.pop(withdrawal.name, None)

    def _remember(self, withdrawal: Withdrawal[Any], interruptions: int) -> None:
        log.info("withdrew %s", withdrawal.name, extra=dict(withdrawal.log_fields))
        self._withdrawn.pop(withdrawal.name, None)
        self._withdrawn[withdrawal.name] = _Withdrawn(withdrawal, interruptions, time.monotonic())
        if len(self._withdrawn) > _MAX_REPEATED:
            del self._withdrawn[next(iter(self._withdrawn))]
        self._repeating.wake()


def _state_of(created: RunSnapshot | BulkRecord) -> str:
    return created.status if isinstance(created, RunSnapshot) else created.state


def _report_orphan(withdrawal: Withdrawal[Any], why: str) -> None:
    log.error(
        "%s: %s was answered with an error: %s",
        Err.ORPHAN_RUN.en,
        withdrawal.name,
        why,
        extra=Err.ORPHAN_RUN.log_fields(**withdrawal.log_fields),
    )
