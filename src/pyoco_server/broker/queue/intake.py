"""A worker's intake: deliveries of several tags, pulled as slots ask for them.

Each caller of `take` is a free slot. A pull cannot be withdrawn, so pulling for every slot from every tag
would bring more deliveries than there are slots, and each one handed back costs one of its `MaxDeliver`.
Hence two steps: first the tags are pulled in turn for what they have now; only when all are empty does a pull
wait at each of them. A delivery that then finds no slot is buffered, is taken first, and goes back to the
queue when no slot takes it soon.

While runs are short, a round trip to the queue is a good part of the cost of a run. A slot that takes many of
them therefore has some prefetched: one for each slot, and only jobs that wait in the queue already, so that
an idle worker is not deprived of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.queue.tag_consumers import configured_limits, ensure_consumer, limits_of_usable
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.errors import NatsUnavailable, UnusableConsumer

log = logging.getLogger(__name__)

_MAINTENANCE_SEC = 0.5
# How often the consumers are read: someone may have changed their AckWait.
_CHECK_SEC = 5.0
# A delivery that no slot took within this time is handed back.
_BUFFERED_SEC = 1.0
# A slot that takes two deliveries within this time has short runs.
_SHORT_RUN_SEC = 0.05

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


class IntakeClosed(Exception):
    """The worker takes no more runs."""


class Intake:
    """Deliveries for a worker's tags."""

    def __init__(self, connection: Connection, tags: Sequence[str]) -> None:
        self._connection = connection
        self._tags = [TagPulls(connection, name, self) for name in tags]
        # The tag that the next round begins with.
        self._turn = 0
        self._takers: deque[asyncio.Future[Delivery]] = deque()
        # When slots called `take`, within the last `_SHORT_RUN_SEC`.
        self._taken_at: deque[float] = deque()
        # Slots that have a run.
        self._busy = 0
        self._pulling = asyncio.Lock()
        self._maintenance = BackgroundLoop("intake", self._maintain)
        self._ticked_at = 0.0
        self._closed = asyncio.Event()
        self._paused = False
        self._bind_again = False
        self._checked_at = 0.0
        # Whether an AckWait has become too short since the start.
        self._unusable = False
        # The shortest AckWait of the tags: an existing consumer keeps its own.
        self.ack_wait_sec = configured_limits(connection.config).ack_wait_sec
        # Called when a delivery is buffered.
        self.on_buffered: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Bind to the consumers now and again after each reconnect."""
        self._connection.on_connect(self._bind)
        await self._bind()
        self._maintenance.start()

    async def take(self, *, ahead: bool = False) -> Delivery:
        """The next delivery, whenever it comes; a cancelled taker loses nothing.

        With `ahead` the caller takes one after the other, and more may be prefetched.
        """
        if self._closed.is_set():
            raise IntakeClosed
        if ahead and len(self._tags) == 1:
            await self._prefetch(self._tags[0])
        self._busy = max(0, self._busy - 1)
        try:
            return self._pop_buffered() or await self._wait_for_delivery()
        finally:
            # Also when cancelled: the next call subtracts it again.
            self._busy += 1

    def take_buffered(self, accepts: Callable[[Delivery], bool]) -> Delivery | None:
        """The next buffered delivery, if there is one and it is accepted; then call `slot_freed` later."""
        if self._closed.is_set() or self._paused:
            return None
        for tag in self._tags:
            if tag.buffer:
                if not accepts(tag.buffer[0][1]):
                    return None
                self._busy += 1
                return tag.buffer.popleft()[1]
        return None

    @property
    def has_buffered(self) -> bool:
        if not self._closed.is_set():
            for tag in self._tags:
                if tag.buffer:
                    return True
        return False

    async def hand_back_buffered(self) -> None:
        """No slot frees up soon: hand the deliveries back for another worker."""
        for tag in self._tags:
            while tag.buffer and not self._closed.is_set():
                await self._hand_back(tag.buffer.popleft()[1])

    async def slot_freed(self) -> None:
        """The taker of a buffered delivery can take another one, which is prefetched."""
        if len(self._tags) == 1:
            await self._prefetch(self._tags[0])
        self._busy = max(0, self._busy - 1)

    async def _wait_for_delivery(self) -> Delivery:
        taker: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        try:
            await self._pull_for_takers()
            return await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._buffer(taker.result())
            raise
        finally:
            if taker in self._takers:
                self._takers.remove(taker)

    async def _prefetch(self, tag: TagPulls) -> None:
        """Pull one for the calling slot, and one for each slot if all have short runs."""
        now = time.monotonic()
        self._taken_at.append(now)
        while self._taken_at[0] < now - _SHORT_RUN_SEC:
            self._taken_at.popleft()
        expected = 1 + self._busy if len(self._taken_at) > self._busy else 1
        missing = expected - len(tag.buffer)
        # Several at once, since each pull costs the same.
        if tag.waiting and not tag.outstanding and 2 * missing > expected and not self._paused:
            tag.prefetching = True
            await self._pull(tag, min(missing, tag.waiting))

    async def close(self) -> None:
        """Stop pulling for good and hand back at once whatever no slot has taken."""
        if self._closed.is_set():
            return
        self._closed.set()
        for taker in self._takers:
            if not taker.done():
                taker.set_exception(IntakeClosed())
        await self._maintenance.close()
        await self._release()

    async def wait_closed(self, seconds: float) -> bool:
        """Wait so long for the intake to be closed; return whether it is."""
        try:
            async with asyncio.timeout(seconds):
                return await self._closed.wait()
        except TimeoutError:
            return False

    async def pause(self) -> None:
        """Have slots wait until `resume`; whatever none of them has taken is handed back at once."""
        self._paused = True
        await self._release()

    def resume(self) -> None:
        """Pull again, for the slots that wait."""
        self._paused = False
        self._bind_again = True
        self._maintenance.wake()

    async def _release(self) -> None:
        """End the pulls that wait at the server, and hand back what they have brought."""
        for tag in self._tags:
            await tag.unbind()
            while tag.buffer:
                await self._hand_back(tag.buffer.popleft()[1])

    async def _bind(self) -> None:
        for tag in self._tags:
            await tag.bind()
        self._use_ack_waits()
        if self._takers:
            await self._pull_for_takers()

    def _use_ack_waits(self) -> None:
        self.ack_wait_sec = min(tag.limits.ack_wait_sec for tag in self._tags)
        self._checked_at = time.monotonic()
        self._unusable = False

    @property
    def _demand(self) -> int:
        return len(self._takers) - sum(len(tag.buffer) for tag in self._tags)

    async def _pull_for_takers(self) -> None:
        """Send the pulls that the waiting slots need and that are not outstanding yet."""
        if self._paused:
            return
        async with self._pulling:
            if len(self._tags) > 1:
                await self._pull_in_turn()
            elif self._tags[0].prefetching:
                # It may bring enough, and how much it brings is known in a moment.
                await self._tags[0].wait_settled()
            for tag in self._tags:
                missing = self._demand - tag.outstanding
                if missing > 0:
                    await self._pull(tag, missing, wait=True)

    async def _pull_in_turn(self) -> None:
        """Pull what the tags have now, one tag after the other, each round beginning with the next."""
        for tag in self._tags[self._turn :] + self._tags[: self._turn]:
            if self._demand <= 0:
                return
            if tag.outstanding == 0:
                self._turn = (self._tags.index(tag) + 1) % len(self._tags)
                await self._pull(tag, self._demand)
                await tag.wait_settled()

    async def _pull(self, tag: TagPulls, batch: int, *, wait: bool = False) -> None:
        if not self._closed.is_set() and not self._paused and not self._unusable:
            await tag.pull(batch, wait=wait)

    def pull_expired(self) -> None:
        """Pull again soon, for the slots that still wait."""
        self._maintenance.wake()

    def pull_refused(self) -> None:
        """The consumer was deleted or its leader is moving: bind to it again."""
        self._bind_again = True

    def deliver(self, delivery: Delivery) -> None:
        """Give it to the taker that has waited longest, or buffer it."""
        while self._takers and not self._paused:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(delivery)
                return
        self._buffer(delivery)

    def _buffer(self, delivery: Delivery) -> None:
        tag = next(tag for tag in self._tags if tag.name == delivery.tag)
        tag.buffer.append((time.monotonic(), delivery))
        if self._paused:
            self._maintenance.wake()
        self.on_buffered()

    def _pop_buffered(self) -> Delivery | None:
        for tag in self._tags:
            if tag.buffer and not self._paused:
                return tag.buffer.popleft()[1]
        return None

    async def _maintain(self) -> None:
        """Hand back unused deliveries; replace pulls that have expired or that the server has dropped."""
        await self._maintenance.pause(_MAINTENANCE_SEC)
        self._tick()
        await self._hand_back_unused()
        if self._connection.ready and time.monotonic() - self._checked_at >= _CHECK_SEC:
            await self._check_consumers()
        if (self._takers or self._bind_again) and self._connection.ready:
            await self._pull_again()

    def _tick(self) -> None:
        now = time.monotonic()
        # Not more often: what has waited in the socket is read between two ticks.
        if now - self._ticked_at >= _MAINTENANCE_SEC / 2:
            self._ticked_at = now
            for tag in self._tags:
                tag.tick()

    async def _check_consumers(self) -> None:
        """Take no runs while an AckWait is too short; runs in progress continue."""
        was_unusable = self._unusable
        self._checked_at = time.monotonic()
        try:
            for tag in self._tags:
                await tag.read_ack_wait()
        except UnusableConsumer as error:
            self._unusable = True
            if not was_unusable:
                log.error("taking no more runs: %s %s", error, error.error.cure("en"))
                await self._release()
        except NatsUnavailable as error:
            log.debug("the consumers could not be read: %s", error)
        else:
            self._use_ack_waits()
            if was_unusable:
                log.warning("taking runs again: every AckWait is long enough")
                self._bind_again = True

    async def _pull_again(self) -> None:
        silent = [tag.name for tag in self._tags if tag.is_silent]
        if silent:
            log.warning("no reply to the pulls for %s; pulling again", ", ".join(silent))
        try:
            if silent or self._bind_again:
                if not self._unusable:
                    await self._bind()
                    self._bind_again = False
            else:
                await self._pull_for_takers()
        except NatsUnavailable as error:
            log.warning("cannot pull jobs: %s", error, extra=error.error.log_fields())

    async def _hand_back_unused(self) -> None:
        after_sec = 0.0 if self._paused else _BUFFERED_SEC
        for tag in self._tags:
            while tag.buffer and time.monotonic() - tag.buffer[0][0] >= after_sec:
                await self._hand_back(tag.buffer.popleft()[1])

    async def _hand_back(self, delivery: Delivery) -> None:
        try:
            await delivery.nak()
        except NatsUnavailable as error:
            log.debug("delivery %s comes back after AckWait: %s", delivery.id, error)


class TagPulls:
    """The pulls of one tag: what was requested of its consumer, and what has come of it."""

    def __init__(self, connection: Connection, name: str, intake: Intake) -> None:
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
        self._intake = intake
        # Where to pull; empty before the first `bind`.
        self._subject = ""
        self._inbox = RenewableSubscription(connection, self._on_message)
        self._settled = asyncio.Event()
        self._received_at = 0.0
        self.limits = configured_limits(connection.config)
        self._ticked_at = time.monotonic()
        # Since when the process was paused, if that was seen at the last tick.
        self._stalled_since: float | None = None

    async def bind(self) -> None:
        """Create the consumer if it is missing, and subscribe."""
        consumer = await ensure_consumer(self._connection, self.name)
        self.limits = consumer.limits
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._connection.config.work_stream}.{consumer.name}"
        await self._inbox.renew()
        # Pulls of an earlier connection ended with it.
        self._set_outstanding(0)

    async def read_ack_wait(self) -> None:
        self.limits = await limits_of_usable(self._connection, self.name)

    def tick(self) -> None:
        """Called regularly: a process that was paused finds deliveries that have waited in its socket."""
        now = time.monotonic()
        self._stalled_since = self._ticked_at if self._was_stalled_at(now) else None
        self._ticked_at = now

    def _was_stalled_at(self, now: float) -> bool:
        return now - self._ticked_at > min(_STALL_SEC, _STALL_PART * self.limits.ack_wait_sec)

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
            # The callback of `on_connect` pulls again.
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
                limits=self.limits,
                sent_at=self._sent_at,
            )
            self.waiting = delivery.waiting
            self._intake.deliver(delivery)
            self._set_outstanding(self.outstanding - 1)
        elif status != _HEARTBEAT_STATUS:
            self._on_pull_ended(status, message.headers)

    def _on_pull_ended(self, status: str, headers: dict[str, str]) -> None:
        """The pull has expired, found nothing, or was refused."""
        left = headers.get("Nats-Pending-Messages", "")
        self._set_outstanding(self.outstanding - int(left) if left.isdigit() else 0)
        self.waiting = 0
        if status == _EXPIRED_STATUS:
            self._intake.pull_expired()
        elif status != _EMPTY_STATUS:
            log.info("pull for tag %s refused: %s %s", self.name, status, headers["Description"])
            self._intake.pull_refused()
