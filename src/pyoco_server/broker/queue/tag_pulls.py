"""The pulls of one tag: what was requested of its consumer, and what has come of it."""

import asyncio
import logging
import time
from collections import deque
from typing import Protocol

import msgspec

from pyoco_server.broker.client.connection import Connection, RenewableSubscription
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue, consumer_name
from pyoco_server.errors import NatsUnavailable

log = logging.getLogger(__name__)

_EXPIRES_SEC = 30.0
_HEARTBEAT_SEC = 5.0
_HEARTBEAT_STATUS = "100"
_EXPIRED_STATUS = "408"
_EMPTY_STATUS = "404"

# A gap of this length between two ticks, or of this part of AckWait, shows that the process was paused.
_STALL_SEC = 2.0
_STALL_PART = 0.25

_NO_WAIT = {"no_wait": True}
_WAIT = {"expires": int(_EXPIRES_SEC * 1e9), "idle_heartbeat": int(_HEARTBEAT_SEC * 1e9)}


class Receiver(Protocol):
    def deliver(self, delivery: Delivery) -> None: ...
    def pull_expired(self) -> None: ...
    def pull_refused(self) -> None: ...


class TagPulls:
    def __init__(self, connection: Connection, queue: WorkQueue, name: str, receiver: Receiver) -> None:
        self.name = name
        # Deliveries requested and neither received nor refused yet.
        self.outstanding = 0
        # Whether they were requested ahead of demand.
        self.prefetching = False
        # Jobs that were left in the queue when the last delivery was sent.
        self.waiting = 0
        # Deliveries that no slot has taken, each with the time since when.
        self.buffer: deque[tuple[float, Delivery]] = deque()
        self._connection = connection
        self._queue = queue
        self._receiver = receiver
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{connection.config.work_stream}.{consumer_name(name)}"
        self._inbox = RenewableSubscription(connection, self._on_message)
        self._settled = asyncio.Event()
        self._received_at = 0.0
        self._ack_wait_sec = connection.config.consumer_ack_wait_sec
        self._ticked_at = time.monotonic()
        # Since when the process was paused, if that was seen at the last tick.
        self._stalled_since: float | None = None

    async def bind(self) -> float:
        """Create the consumer if it is missing, and subscribe; return the consumer's AckWait."""
        self._ack_wait_sec = await self._queue.ensure_consumer(self.name)
        await self._inbox.renew()
        # Pulls of an earlier connection ended with it.
        self._set_outstanding(0)
        return self._ack_wait_sec

    def tick(self) -> None:
        """Called regularly: a process that was paused finds deliveries that have waited in its socket."""
        now = time.monotonic()
        self._stalled_since = self._ticked_at if self._was_stalled_at(now) else None
        self._ticked_at = now

    def _was_stalled_at(self, now: float) -> bool:
        return now - self._ticked_at > min(_STALL_SEC, _STALL_PART * self._ack_wait_sec)

    @property
    def _sent_at(self) -> float:
        """When the server sent, at the earliest, what is read now."""
        now = time.monotonic()
        if self._was_stalled_at(now):
            return self._ticked_at
        return now if self._stalled_since is None else self._stalled_since

    async def unbind(self) -> None:
        """End the pulls that wait at the server; what it has sent already is still received."""
        if self._connection.state.up:
            # The server drops a pull without a subscriber. What it has sent already must be handed back too.
            await self._inbox.end(drain=True)
        self._set_outstanding(0)

    async def pull(self, batch: int, *, wait: bool) -> None:
        """Request so many: those that are in the queue now, or with `wait` also those that will come."""
        if not self._connection.state.up or not self._inbox.subject:
            return
        request = msgspec.json.encode({"batch": batch, **(_WAIT if wait else _NO_WAIT)})
        self._set_outstanding(self.outstanding + batch)
        self._received_at = time.monotonic()
        try:
            await self._connection.publish(self._subject, request, reply=self._inbox.subject)
        except NatsUnavailable as error:
            # The reconnect hook pulls again.
            log.debug("pull for tag %s not sent: %s", self.name, error)
            self._set_outstanding(0)

    async def wait_settled(self) -> None:
        """Wait until everything that was requested without `wait` has come or been refused."""
        try:
            async with asyncio.timeout(self._connection.config.nats_request_timeout_sec):
                await self._settled.wait()
        except TimeoutError:
            log.warning("no reply to a pull for tag %s", self.name)
            self._set_outstanding(0)

    @property
    def is_silent(self) -> bool:
        """Whether the server seems to have dropped a pull."""
        return self.outstanding > 0 and time.monotonic() - self._received_at > 3 * _HEARTBEAT_SEC

    def _set_outstanding(self, count: int) -> None:
        self.outstanding = max(0, count)
        if self.outstanding:
            self._settled.clear()
        else:
            self._settled.set()
            self.prefetching = False

    def _on_message(self, message: Message) -> None:
        self._received_at = time.monotonic()
        status = message.status
        if status is None:
            delivery = Delivery(
                self._connection,
                message,
                self.name,
                ack_wait_sec=self._ack_wait_sec,
                sent_at=self._sent_at,
            )
            self.waiting = delivery.waiting
            self._receiver.deliver(delivery)
            self._set_outstanding(self.outstanding - 1)
        elif status != _HEARTBEAT_STATUS:
            self._on_pull_ended(status, message.headers)

    def _on_pull_ended(self, status: str, headers: dict[str, str]) -> None:
        """The pull has expired, found nothing, or was refused."""
        left = headers.get("Nats-Pending-Messages", "")
        self._set_outstanding(self.outstanding - int(left) if left.isdigit() else 0)
        self.waiting = 0
        if status == _EXPIRED_STATUS:
            self._receiver.pull_expired()
        elif status != _EMPTY_STATUS:
            log.info("pull for tag %s refused: %s %s", self.name, status, headers["Description"])
            self._receiver.pull_refused()
