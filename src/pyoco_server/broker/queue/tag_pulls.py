"""The pulls of one tag: what was asked of its consumer, and what has come of it."""

import asyncio
import logging
import time
from collections import deque
from typing import Protocol

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue, consumer_name
from pyoco_server.errors import NatsUnavailable

log = logging.getLogger(__name__)

_EXPIRES_SEC = 30.0
_HEARTBEAT_SEC = 5.0
_HEARTBEAT_STATUS = "100"
_EXPIRED_STATUS = "408"
_EMPTY_STATUS = "404"

# Longer than a process that is not held up takes between two signs of life, or this part of AckWait.
_STALL_SEC = 2.0
_STALL_PART = 0.25

_NOW = {"no_wait": True}
_IN_TIME = {"expires": int(_EXPIRES_SEC * 1e9), "idle_heartbeat": int(_HEARTBEAT_SEC * 1e9)}


class Receiver(Protocol):
    """Who is told what came of a pull."""

    def deliver(self, delivery: Delivery) -> None: ...
    def pull_expired(self) -> None: ...
    def pull_refused(self) -> None: ...


class TagPulls:
    def __init__(self, connection: Connection, queue: WorkQueue, name: str, receiver: Receiver) -> None:
        self.name = name
        # Deliveries asked for and neither received nor refused yet.
        self.promised = 0
        # Jobs that were left in the queue when the last delivery was sent.
        self.waiting = 0
        # Whether what is promised was asked for ahead.
        self.fetching = False
        # What has come and nobody has taken, each with the time since when.
        self.buffer: deque[tuple[float, Delivery]] = deque()
        self._connection = connection
        self._queue = queue
        self._receiver = receiver
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{connection.config.work_stream}.{consumer_name(name)}"
        # Of the connection that the pulls are made on.
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._settled = asyncio.Event()
        self._heard_at = 0.0
        self._ack_wait_sec = connection.config.consumer_ack_wait_sec
        # When this process was last seen to run, and since when it did not if it was held up just now.
        self._alive_at = time.monotonic()
        self._stalled_since: float | None = None

    async def bind(self) -> float:
        """Make sure of the consumer, and listen; the AckWait that the consumer has."""
        self._ack_wait_sec = await self._queue.ensure_consumer(self.name)
        if self._client is not self._connection.client:
            self._client = self._connection.client
            self._inbox = self._connection.new_inbox()
            self._subscription = await self._connection.subscribe_direct(self._inbox, self._on_message)
        # Pulls of an earlier connection are gone with it.
        self._promise(0)
        return self._ack_wait_sec

    def tick(self) -> None:
        """Called regularly: a process that was paused finds deliveries that have waited in its socket."""
        now = time.monotonic()
        self._stalled_since = self._alive_at if self._was_stalled_at(now) else None
        self._alive_at = now

    def _was_stalled_at(self, now: float) -> bool:
        return now - self._alive_at > min(_STALL_SEC, _STALL_PART * self._ack_wait_sec)

    @property
    def _sent_at(self) -> float:
        """When the server sent, at the earliest, what is read now."""
        now = time.monotonic()
        if self._was_stalled_at(now):
            return self._alive_at
        return now if self._stalled_since is None else self._stalled_since

    async def unbind(self) -> None:
        """End the pulls that wait at the server; what it has sent already is still received."""
        subscription = self._subscription
        if subscription is not None and self._connection.state.up:
            # The server forgets a pull that nobody listens for.
            self._subscription, self._client, self._inbox = None, None, ""
            # Drain rather than unsubscribe: what the server has sent already must be handed back too.
            try:
                await subscription.drain()  # type: ignore[no-untyped-call]
            except nats.errors.Error as error:
                log.debug("the connection ended first: %s", error or type(error).__name__)
        self._promise(0)

    async def pull(self, batch: int, *, patient: bool) -> None:
        """Ask for so many: those that wait in the queue now, or with patience those that will come."""
        if not self._connection.state.up or not self._inbox:
            return
        request = {"batch": batch, **(_IN_TIME if patient else _NOW)}
        self._promise(self.promised + batch)
        self._heard_at = time.monotonic()
        try:
            await self._connection.publish(self._subject, msgspec.json.encode(request), reply=self._inbox)
        except NatsUnavailable as error:
            # The reconnect hook asks again.
            log.debug("pull for tag %s not sent: %s", self.name, error)
            self._promise(0)

    async def until_settled(self) -> None:
        """Wait until everything that was asked for without patience has come or been refused."""
        try:
            async with asyncio.timeout(self._connection.config.nats_request_timeout_sec):
                await self._settled.wait()
        except TimeoutError:
            log.warning("no answer to a pull for tag %s", self.name)
            self._promise(0)

    @property
    def is_silent(self) -> bool:
        """Whether the server seems to have forgotten a pull."""
        return self.promised > 0 and time.monotonic() - self._heard_at > 3 * _HEARTBEAT_SEC

    def _promise(self, count: int) -> None:
        self.promised = max(0, count)
        if self.promised:
            self._settled.clear()
        else:
            self._settled.set()
            self.fetching = False

    def _on_message(self, message: Message) -> None:
        self._heard_at = time.monotonic()
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
            self._promise(self.promised - 1)
        elif status != _HEARTBEAT_STATUS:
            self._ended(status, message.headers)

    def _ended(self, status: str, headers: dict[str, str]) -> None:
        """A pull brings no more: it has expired, found nothing, or was refused."""
        left = headers.get("Nats-Pending-Messages", "")
        self._promise(self.promised - int(left) if left.isdigit() else 0)
        self.waiting = 0
        if status == _EXPIRED_STATUS:
            self._receiver.pull_expired()
        elif status != _EMPTY_STATUS:
            log.info("pull for tag %s refused: %s %s", self.name, status, headers["Description"])
            self._receiver.pull_refused()
