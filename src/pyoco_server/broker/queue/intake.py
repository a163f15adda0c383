"""A worker's intake: deliveries of several tags, pulled as slots ask for them.

Whoever calls `take` is a free slot; the callers waiting are the demand. A pull cannot be taken back, so
asking every tag for every slot would draw more deliveries than there are slots, and each one handed back
costs one of its `MaxDeliver`. Hence two steps: first the tags are asked in turn for what they have now;
only when all are empty does a pull wait at each of them. A delivery that then finds no slot waits here,
is served first, and goes back to the queue when no slot frees up soon.

While runs are short, a round trip to the queue per run is a good part of what a run costs. A slot that takes
many of them therefore has some fetched ahead: one for each slot, and only jobs that wait in the queue
already. An idle worker is not deprived of these, or it would have them.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.tag_pulls import TagPulls
from pyoco_server.broker.queue.work_queue import Delivery, WorkQueue
from pyoco_server.errors import NatsUnavailable

log = logging.getLogger(__name__)

_HOUSEKEEPING_SEC = 0.5
# A delivery that no slot took within this time is given to another worker.
_HOLD_SEC = 1.0
# A slot that comes for a run, and then for the next one within this time, has short runs.
_MOMENT_SEC = 0.05


class IntakeClosed(Exception):
    """The worker takes no more runs."""


class Intake:
    """Deliveries for a worker's tags."""

    def __init__(self, connection: Connection, queue: WorkQueue, tags: Sequence[str]) -> None:
        self._connection = connection
        self._tags = [TagPulls(connection, queue, name, self) for name in tags]
        # Where the next round over the tags begins.
        self._turn = 0
        self._takers: deque[asyncio.Future[Delivery]] = deque()
        # When slots came for a run, in the last moment.
        self._came_at: deque[float] = deque()
        # How many took one and have not come again.
        self._busy = 0
        self._asking = asyncio.Lock()
        self._housekeeper: asyncio.Task[None] | None = None
        self._ticked_at = 0.0
        self._closed = asyncio.Event()
        self._paused = False
        self._look_now = asyncio.Event()
        self._bind_again = False
        # The AckWait that really applies: an existing consumer keeps its own.
        self.ack_wait_sec = connection.config.consumer_ack_wait_sec
        # Called when there is something that no slot waits for.
        self.on_left_over: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Bind to the consumers now and again after each reconnect."""
        self._connection.add_hook(self._bind)
        await self._bind()
        self._housekeeper = asyncio.create_task(repeat("intake", self._keep_house), name="intake")

    async def take(self, *, ahead: bool = False) -> Delivery:
        """The next delivery, whenever it comes; a cancelled taker loses nothing.

        With `ahead` it is a slot that takes one after the other, and more may be fetched than it takes now.
        """
        if self._closed.is_set():
            raise IntakeClosed
        if ahead and len(self._tags) == 1:
            await self._fetch_ahead(self._tags[0])
        self._busy = max(0, self._busy - 1)
        try:
            return self._pop_buffered() or await self._wait_for_delivery()
        finally:
            # Also one that gave up waiting: it will come again, and be counted again.
            self._busy += 1

    def take_left_over(self, wanted: Callable[[Delivery], bool]) -> Delivery | None:
        """The delivery that would be the next one's, if it is there and wanted; `come_again` after it."""
        if self._closed.is_set() or self._paused:
            return None
        for tag in self._tags:
            if tag.buffer:
                if not wanted(tag.buffer[0][1]):
                    return None
                self._busy += 1
                return tag.buffer.popleft()[1]
        return None

    @property
    def has_left_over(self) -> bool:
        if not self._closed.is_set():
            for tag in self._tags:
                if tag.buffer:
                    return True
        return False

    async def hand_back_left_over(self) -> None:
        """Nobody will come for it soon: let another worker have it."""
        for tag in self._tags:
            while tag.buffer and not self._closed.is_set():
                await self._hand_back(tag.buffer.popleft()[1])

    async def come_again(self) -> None:
        """Whoever took what was left over could take more, which is fetched ahead."""
        if len(self._tags) == 1:
            await self._fetch_ahead(self._tags[0])
        self._busy = max(0, self._busy - 1)

    async def _wait_for_delivery(self) -> Delivery:
        taker: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        try:
            await self._ask()
            return await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._keep(taker.result())
            raise
        finally:
            if taker in self._takers:
                self._takers.remove(taker)

    async def _fetch_ahead(self, tag: TagPulls) -> None:
        """Fetch one for the slot that came, and one for each slot if all have come within the last moment."""
        now = time.monotonic()
        self._came_at.append(now)
        while self._came_at[0] < now - _MOMENT_SEC:
            self._came_at.popleft()
        wanted = 1 + self._busy if len(self._came_at) > self._busy else 1
        missing = wanted - len(tag.buffer)
        # Several at once, since each pull costs the same.
        if tag.waiting and not tag.promised and 2 * missing > wanted and not self._paused:
            tag.fetching = True
            await self._pull(tag, min(missing, tag.waiting))

    async def close(self) -> None:
        """Stop pulling for good and hand back at once whatever no slot has taken."""
        if self._closed.is_set():
            return
        self._closed.set()
        for taker in self._takers:
            if not taker.done():
                taker.set_exception(IntakeClosed())
        if self._housekeeper is not None:
            self._housekeeper.cancel()
            await asyncio.gather(self._housekeeper, return_exceptions=True)
        await self._let_go()

    async def closes_within(self, seconds: float) -> bool:
        """Wait so long for the intake to be closed; whether it is."""
        try:
            async with asyncio.timeout(seconds):
                return await self._closed.wait()
        except TimeoutError:
            return False

    async def pause(self) -> None:
        """Have slots wait until `resume`; whatever none of them has taken is handed back at once."""
        self._paused = True
        await self._let_go()

    def resume(self) -> None:
        """Pull again, for the slots that wait."""
        self._paused = False
        self._bind_again = True
        self._look_now.set()

    async def _let_go(self) -> None:
        """End the pulls that wait at the server, and give back what they have brought."""
        for tag in self._tags:
            await tag.unbind()
            while tag.buffer:
                await self._hand_back(tag.buffer.popleft()[1])

    async def _bind(self) -> None:
        for tag in self._tags:
            self.ack_wait_sec = min(self.ack_wait_sec, await tag.bind())
        if self._takers:
            await self._ask()

    @property
    def _demand(self) -> int:
        return len(self._takers) - sum(len(tag.buffer) for tag in self._tags)

    async def _ask(self) -> None:
        """Send the pulls that the waiting slots need and that are not under way yet."""
        if self._paused:
            return
        async with self._asking:
            if len(self._tags) > 1:
                await self._ask_in_turn()
            elif self._tags[0].fetching:
                # It may bring what is wanted, and how much it brings is known in a moment.
                await self._tags[0].until_settled()
            for tag in self._tags:
                missing = self._demand - tag.promised
                if missing > 0:
                    await self._pull(tag, missing, patient=True)

    async def _ask_in_turn(self) -> None:
        """Take what the tags hold now, one tag after the other, each round beginning with the next."""
        for tag in self._tags[self._turn :] + self._tags[: self._turn]:
            if self._demand <= 0:
                return
            if tag.promised == 0:
                self._turn = (self._tags.index(tag) + 1) % len(self._tags)
                await self._pull(tag, self._demand)
                await tag.until_settled()

    async def _pull(self, tag: TagPulls, batch: int, *, patient: bool = False) -> None:
        if not self._closed.is_set() and not self._paused:
            await tag.pull(batch, patient=patient)

    def pull_expired(self) -> None:
        """Ask again soon, for those who still wait."""
        self._look_now.set()

    def pull_refused(self) -> None:
        """The consumer was deleted or its leader is moving: bind to it again."""
        self._bind_again = True

    def deliver(self, delivery: Delivery) -> None:
        """Give it to whoever has waited longest, or keep it for the next who comes."""
        while self._takers and not self._paused:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(delivery)
                return
        self._keep(delivery)

    def _keep(self, delivery: Delivery) -> None:
        tag = next(tag for tag in self._tags if tag.name == delivery.tag)
        tag.buffer.append((time.monotonic(), delivery))
        if self._paused:
            self._look_now.set()
        self.on_left_over()

    def _pop_buffered(self) -> Delivery | None:
        for tag in self._tags:
            if tag.buffer and not self._paused:
                return tag.buffer.popleft()[1]
        return None

    async def _keep_house(self) -> None:
        """Mend what no delivery would: held ones, pulls that ended, pulls that the server forgot."""
        try:
            async with asyncio.timeout(_HOUSEKEEPING_SEC):
                await self._look_now.wait()
        except TimeoutError:
            log.debug("looking after the pulls")
        self._look_now.clear()
        self._tick()
        await self._hand_back_held()
        if (self._takers or self._bind_again) and self._connection.ready:
            await self._ask_again()

    def _tick(self) -> None:
        now = time.monotonic()
        # Not more often: what has waited in the socket is read between two ticks.
        if now - self._ticked_at >= _HOUSEKEEPING_SEC / 2:
            self._ticked_at = now
            for tag in self._tags:
                tag.tick()

    async def _ask_again(self) -> None:
        silent = [tag.name for tag in self._tags if tag.is_silent]
        if silent:
            log.warning("no sign of the pulls for %s; asking again", ", ".join(silent))
        try:
            if silent or self._bind_again:
                await self._bind()
                self._bind_again = False
            else:
                await self._ask()
        except NatsUnavailable as error:
            log.warning("cannot pull jobs: %s", error, extra=error.error.log_fields())

    async def _hand_back_held(self) -> None:
        hold_sec = 0.0 if self._paused else _HOLD_SEC
        for tag in self._tags:
            while tag.buffer and time.monotonic() - tag.buffer[0][0] >= hold_sec:
                await self._hand_back(tag.buffer.popleft()[1])

    async def _hand_back(self, delivery: Delivery) -> None:
        try:
            await delivery.nak()
        except NatsUnavailable as error:
            log.debug("delivery %s comes back after AckWait: %s", delivery.token, error)
