"""Taking back what a request has stored that is answered with an error: deleted if nobody has begun it.

Where NATS answers, that happens before the error is answered: it is done then, even if this gateway is killed
the next moment. Otherwise it happens in the background, outlives an outage of NATS, and is lost with the
process: a run may then be executed whose submission was answered with 503. Only a key makes up for that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.bulk_records import BulkRecords
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import RunSnapshot, RunStatus
from pyoco_server.records.operation_models import BulkRecord

log = logging.getLogger(__name__)

# How long the answer waits for it: ample where NATS answers at all.
BEFORE_ANSWER_SEC: Final = 0.2
_UNCONFIRMED: Final = (
    "whether it was stored is not known; if so, this gateway withdraws it when NATS is back, unless it is "
    "killed before: send an Idempotency-Key to be able to repeat it safely"
)

Made = TypeVar("Made", bound=RunSnapshot | BulkRecord)
# What has begun and stays, as it was read; None when it was removed.
Undo = Callable[[], Awaitable[Made | None]]


async def remove_unstarted(store: RunStore, journal: Journal, run_id: str) -> RunSnapshot | None:
    """See to it that this id stands for no PENDING run, now or later; the run, if it has begun."""
    while True:
        stored = await store.get_from_leader(run_id)
        if stored is not None and stored.snapshot.status is not RunStatus.PENDING:
            return stored.snapshot
        try:
            if stored is None:
                # A write that is still on its way to the server must not succeed.
                await store.forbid(run_id)
            else:
                await store.delete(run_id, revision=stored.revision)
        except RevisionConflict:
            continue
        await journal.remove(run_id)
        return None


async def remove_unstarted_bulk(records: BulkRecords, bulk_id: str) -> BulkRecord | None:
    """See to it that no operation of this id begins, now or later; the operation, if it has begun."""
    while True:
        stored = await records.get(bulk_id)
        if stored is not None and stored.record.begun:
            return stored.record
        try:
            if stored is None:
                # A write that is still on its way to the server must not succeed.
                await records.forbid(bulk_id)
            else:
                await records.delete(bulk_id, revision=stored.revision)
        except RevisionConflict:
            continue
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal(Generic[Made]):
    """What is to be taken back, and how."""

    # For people: "run 9b1d...".
    name: str
    undo: Undo[Made]
    # In place of `undo` once the error was answered.
    undo_late: Undo[Made] | None = None
    # Whether a repetition is safe whatever becomes of this.
    keyed: bool = False
    log_fields: Mapping[str, str | None] = field(default_factory=dict)


class Withdrawer:
    """Withdraws at once where NATS answers; else one after the other, each until it has succeeded."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: asyncio.Queue[Withdrawal[Any]] = asyncio.Queue()
        self._loop = BackgroundLoop("withdraw", self._next)

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        """Stop; what could not be withdrawn is named, for the operator."""
        await self._loop.close()
        while not self._waiting.empty():
            _report_orphan(self._waiting.get_nowait(), "the gateway stops before it could withdraw it")

    async def withdraw(self, withdrawal: Withdrawal[Made], failure: NatsUnavailable) -> Made:
        """Raise the failure; return what was asked for if it is stored and has begun: then nothing failed.

        The failure says so where it is not known yet.
        """
        try:
            async with asyncio.timeout(BEFORE_ANSWER_SEC):
                begun = await withdrawal.undo()
        except (NatsUnavailable, TimeoutError) as error:
            log.info("%s is withdrawn when NATS answers: %s", withdrawal.name, error)
            self._waiting.put_nowait(withdrawal)
            if not withdrawal.keyed:
                failure.detail = f"{failure.detail}; {_UNCONFIRMED}"
            raise failure from None
        except BaseException:
            self._waiting.put_nowait(withdrawal)
            raise
        if begun is None:
            _report_withdrawn(withdrawal)
            raise failure
        log.info("%s is %s: an answer of NATS was lost, not the write", withdrawal.name, _state_of(begun))
        return begun

    async def _next(self) -> None:
        withdrawal = await self._waiting.get()
        undo = withdrawal.undo_late or withdrawal.undo
        try:
            await self._connection.wait_ready()
            begun = await undo()
        except NatsUnavailable:
            self._waiting.put_nowait(withdrawal)
        except BaseException:
            self._waiting.put_nowait(withdrawal)
            raise
        else:
            if begun is None:
                _report_withdrawn(withdrawal)
            else:
                _report_orphan(withdrawal, f"it was too late to withdraw it; it is {_state_of(begun)}")


def _state_of(made: RunSnapshot | BulkRecord) -> str:
    return made.status if isinstance(made, RunSnapshot) else made.state


def _report_withdrawn(withdrawal: Withdrawal[Any]) -> None:
    log.info("withdrew %s", withdrawal.name, extra=dict(withdrawal.log_fields))


def _report_orphan(withdrawal: Withdrawal[Any], why: str) -> None:
    log.error(
        "%s: %s was answered with an error: %s",
        Err.ORPHAN_RUN.en,
        withdrawal.name,
        why,
        extra=Err.ORPHAN_RUN.log_fields(**withdrawal.log_fields),
    )
