"""Sends signals to runs, and lists those that were sent."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.errors import IdempotencyConflict, MailboxFull, RunConflict, shortened
from pyoco_server.records.ids import new_uuid, uuid_of
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.signal_models import Mailbox, Signal
from pyoco_server.records.waits.wait_models import Actor, WaitRecord
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run
from pyoco_server.signals.mailboxes import find_signal, received_by, trimmed, with_signal

log = logging.getLogger(__name__)

# Each conflict means that another signal was sent or received.
_MAX_CONFLICTS: Final = 200


@dataclass(frozen=True, slots=True)
class SentSignal:
    signal: Signal
    # Whether an earlier request with the same Idempotency-Key has sent it.
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class ListedSignal:
    signal: Signal
    # As it was sent.
    data: Any
    received_by: WaitRecord | None


@dataclass(frozen=True, slots=True)
class SignalsOfRun:
    signals: list[ListedSignal]
    # How many of the oldest received ones are not kept any more.
    removed: int


class SignalSender:
    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.time) -> None:
        self._connection = connection
        self._clock = clock
        self._runs = RunStore(connection)
        self._waits = WaitStore(connection)
        self._mailboxes = MailboxStore(connection)
        self.sent = 0

    async def send(
        self, run_id: str, name: str, data: Any, caller: Caller, actor: Actor, *, key: str | None = None
    ) -> SentSignal:
        """Store a signal for the run; RunNotFound, RunConflict if it has ended, MailboxFull.

        With a `key` a repeated call returns the signal of the first one.
        """
        run = (await find_run(self._runs, run_id, caller)).snapshot
        signal = Signal(
            signal_id=new_uuid() if key is None else uuid_of(run_id, key),
            name=name,
            at=self._clock(),
            data=data,
            by=actor,
            request=None if key is None else _digest(name, data),
        )
        for _ in range(_MAX_CONFLICTS):
            stored = await self._mailboxes.get(run_id)
            if earlier := find_signal(stored.mailbox, signal.signal_id):
                return _replayed(earlier, signal, key)
            # After the mailbox: a repeated request has its answer although the run has ended since.
            if run.status.terminal or run.status is RunStatus.CANCELLING:
                raise RunConflict(f"the run is {run.status}: it receives no signals any more")
            mailbox = await self._with_signal(stored.mailbox, signal)
            try:
                await self._mailboxes.replace(mailbox, revision=stored.revision)
            except RevisionConflict:
                continue
            self.sent += 1
            said = (name, signal.signal_id, actor.label)
            log.info("signal %s (%s) was sent by %s", *said, extra={"run_id": run_id})
            return SentSignal(signal)
        raise self._connection.unavailable("too many signals are sent to this run at the same time")

    async def sent_to(self, run_id: str, caller: Caller) -> SignalsOfRun:
        """What was sent to the run; RunNotFound when there is none that the caller may see."""
        await find_run(self._runs, run_id, caller)
        mailbox = (await self._mailboxes.get(run_id)).mailbox
        waits = [stored.record for stored in await self._waits.of_run_from_leader(run_id)]
        received = received_by(waits) if mailbox.signals else {}
        return SignalsOfRun([_listed(signal, received) for signal in mailbox.signals], mailbox.removed)

    async def _with_signal(self, mailbox: Mailbox, signal: Signal) -> Mailbox:
        try:
            return with_signal(mailbox, signal)
        except MailboxFull:
            # The data of signals that were received since the last write is not needed any more.
            waits = [stored.record for stored in await self._waits.of_run_from_leader(mailbox.run_id)]
            return with_signal(trimmed(mailbox, waits), signal)


def _listed(signal: Signal, received: Mapping[str, WaitRecord]) -> ListedSignal:
    wait = received.get(signal.signal_id)
    data = wait.payload if signal.trimmed and wait is not None else signal.data
    return ListedSignal(signal, data, wait)


def _replayed(earlier: Signal, signal: Signal, key: str | None) -> SentSignal:
    if earlier.request != signal.request:
        raise IdempotencyConflict(
            f"{shortened(key)} was used before with another payload, for signal {earlier.signal_id}"
        )
    return SentSignal(earlier, replayed=True)


def _digest(name: str, data: Any) -> str:
    return sha256(msgspec.json.encode((name, data), order="deterministic")).hexdigest()
