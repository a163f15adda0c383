"""Telling somebody outside that a wait was opened, answered or has expired: `PYOCO_NOTIFY_URL`.

Nothing waits for it: what happened is in the stream of events already, and whichever gateway is free takes
the next one from there. An event is told again and again, under the same id, until the receiver has taken
it; a gateway that dies between the receiver's yes and its own leaves it to the next one.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from typing import Final

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.wait_notices import ConsumerGone, WaitNotice, WaitNotices
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.human.notifications.webhook import Outcome, Receiver, body_of
from pyoco_server.records.wait_models import WaitEventKind, WaitRecord

log = logging.getLogger(__name__)

TOLD: Final = frozenset({WaitEventKind.OPENED, WaitEventKind.ANSWERED, WaitEventKind.EXPIRED})

TRIES: Final = ("delivered", "failed", "given_up")

# How many a gateway tells at the same time.
_SENDERS = 8
_LONGEST_PAUSE_SEC = 600.0
_LOOK_AGAIN_SEC = 0.5
# A worker of an earlier version publishes the event before it stores the wait. When it dies in between, the
# next owner of the run stores the wait: after AckWait, and whatever the run does again before it asks. With
# the longest pause between them these looks take about ten minutes.
_LOOKS_FOR_WAIT = 120
_LONGEST_LOOK_SEC = 5.0


class Notifications:
    """Every gateway has one, and it does nothing where no receiver is named."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._config = connection.config
        self._notices = WaitNotices(connection)
        self._waits = WaitStore(connection)
        self._slots = asyncio.Semaphore(_SENDERS)
        self._work: asyncio.Task[None] | None = None
        # What became of this gateway's tries.
        self.tries: Counter[str] = Counter(dict.fromkeys(TRIES, 0))

    async def start(self) -> None:
        wanted = bool(self._config.notify_url)
        work = repeat("notifications", self._tell_all) if wanted else self._tell_nobody()
        self._work = asyncio.create_task(work, name="notifications")

    async def close(self) -> None:
        """Leave what is being told to the other gateways, or to the next start."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _tell_nobody(self) -> None:
        """Have no consumer keep for a later receiver what it does not need to know."""
        await self._connection.wait_ready()
        try:
            await self._notices.forget()
        except NatsUnavailable as error:
            log.info("what was not told yet is kept until the next start: %s", error)

    async def _tell_all(self) -> None:
        receiver = Receiver(self._config)
        try:
            async with asyncio.TaskGroup() as senders:
                while True:
                    await self._slots.acquire()
                    try:
                        notice = await self._next()
                    except BaseException:
                        self._slots.release()
                        raise
                    senders.create_task(self._tell(receiver, notice))
        finally:
            await self._notices.end_pull()
            await receiver.close()

    async def _next(self) -> WaitNotice:
        """The next event; the consumer is made whenever it may be missing."""
        made = False
        while True:
            try:
                await self._connection.wait_ready()
                if not made:
                    await self._notices.keep()
                    made = True
                if notice := await self._notices.next():
                    return notice
            except (NatsUnavailable, ConsumerGone) as error:
                log.debug("events of waits cannot be read now: %s", error)
                made = False
                await asyncio.sleep(_LOOK_AGAIN_SEC)

    async def _tell(self, receiver: Receiver, notice: WaitNotice) -> None:
        try:
            if notice.event.kind in TOLD:
                await self._tell_once(receiver, notice)
            else:
                await notice.delivery.ack()
        except NatsUnavailable as error:
            log.debug("event %s comes again after its AckWait: %s", notice.event.event_id, error)
        finally:
            self._slots.release()

    async def _tell_once(self, receiver: Receiver, notice: WaitNotice) -> None:
        event, delivery = notice.event, notice.delivery
        wait = await self._waits.get_from_leader(event.wait_id)
        if wait is None:
            if delivery.number < _LOOKS_FOR_WAIT:
                await delivery.nak(min(_LOOK_AGAIN_SEC * delivery.number, _LONGEST_LOOK_SEC))
            else:
                log.info("the wait of event %s is gone", event.event_id, extra={"run_id": event.run_id})
                await delivery.ack()
            return
        body = body_of(event, wait.record, self._config.public_url)
        outcome, why = await receiver.post(event, body)
        if outcome is Outcome.DELIVERED:
            self.tries["delivered"] += 1
            await delivery.ack()
        elif outcome is Outcome.GONE or time.time() - event.at >= self._config.notify_max_age_sec:
            self.tries["given_up"] += 1
            self._log_given_up(notice, wait.record, why)
            await delivery.term()
        else:
            self.tries["failed"] += 1
            pause_sec = pause_after(delivery.number)
            log.info("event %s is told again in %.1f s: %s", event.event_id, pause_sec, why)
            await delivery.nak(pause_sec)

    def _log_given_up(self, notice: WaitNotice, wait: WaitRecord, why: str) -> None:
        event, spec = notice.event, Err.NOTIFICATION_FAILED
        fields = spec.log_fields(run_id=wait.run_id, flow_name=wait.flow_name, tag=wait.tag)
        tries = notice.delivery.number
        log.error("%s: event %s, %d tries: %s", spec.en, event.event_id, tries, why, extra=fields)


def pause_after(tries: int) -> float:
    """Doubling from a second on, and drawn at random below that, so that a receiver can get up again."""
    longest: float = min(_LONGEST_PAUSE_SEC, 2.0 ** min(tries - 1, 30))
    return random.uniform(longest / 2, longest)  # noqa: S311 - spreading load needs no secrecy
