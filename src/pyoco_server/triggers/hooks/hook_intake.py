"""Messages on NATS subjects start runs of hooks of the kind `nats`.

A message is acknowledged when its run is stored. One that can never start a run is terminated, and the
reason is recorded with the deliveries of its hook, or in the log if there is no such hook.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.jetstream_api import ConsumerGone
from pyoco_server.broker.stores.triggers.hook_messages import HookMessage, HookMessages
from pyoco_server.errors import HookBusy, IndexNotReady, NatsUnavailable, PyocoError, shortened
from pyoco_server.errors.error_table import Err
from pyoco_server.records.triggers.hook_models import DeliveryStatus, HookKind, HookRecord
from pyoco_server.triggers.hooks.hook_directory import HookDirectory
from pyoco_server.triggers.hooks.hook_receiver import HookReceiver
from pyoco_server.triggers.hooks.signatures import Incoming

log = logging.getLogger(__name__)

_BATCH: Final = 32
_RETRY_SEC: Final = 1.0
# While an earlier run of the hook is open (`overlap`: `reject`), a message waits longer each time.
_BUSY_SEC: Final = 5.0
_MAX_BUSY_SEC: Final = 30.0
# For so long, the other messages of a hook that was busy are not tried: thousands may wait for one run.
_SAME_HOOK_SEC: Final = 0.5


class HookIntake:
    def __init__(self, connection: Connection, directory: HookDirectory, receiver: HookReceiver) -> None:
        self._connection = connection
        self._messages = HookMessages(connection)
        self._directory = directory
        self._receiver = receiver
        self._work: asyncio.Task[None] | None = None
        # By owner: until when a hook counts as busy, by the monotonic clock.
        self._busy: dict[str, float] = {}

    async def start(self) -> None:
        self._work = asyncio.create_task(repeat("hook messages", self._take_all), name="hook-messages")

    async def close(self) -> None:
        """Messages in work are delivered again, to this gateway or another."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _take_all(self) -> None:
        await self._connection.wait_ready()
        try:
            # What was published before this gateway has read its hooks is not for an unknown one.
            await self._directory.caught_up()
            await self._messages.ensure_consumer()
            while True:
                messages = await self._messages.next(_BATCH)
                self._forget_busy()
                await asyncio.gather(*map(self._process, messages))
        except (NatsUnavailable, ConsumerGone, IndexNotReady) as error:
            log.debug("messages for hooks are taken again soon: %s", error)
            await asyncio.sleep(_RETRY_SEC)
        finally:
            with suppress(NatsUnavailable):
                await self._messages.end_pull()

    async def _process(self, message: HookMessage) -> None:
        try:
            hook = await self._hook_of(message)
            if hook is None:
                self._receiver.counts[DeliveryStatus.REFUSED] += 1
                await self._terminate(message, "there is no hook of the kind `nats` with this subject")
                return
            if message.deliveries > 1 and hook.owner in self._busy:
                await self._redeliver_when_free(message)
                return
            delivery = Incoming(
                headers=message.headers,
                body=message.body,
                over_nats=True,
                is_repeated=message.deliveries > 1,
            )
            await self._start(hook, message, delivery)
        except (NatsUnavailable, IndexNotReady):
            await self._redeliver_after(message, _RETRY_SEC)
        except PyocoError as error:
            await self._terminate(message, error.sentence())

    async def _start(self, hook: HookRecord, message: HookMessage, delivery: Incoming) -> None:
        try:
            await self._receiver.process(hook, delivery, default_key=message.message_id)
        except HookBusy:
            self._busy[hook.owner] = time.monotonic() + _SAME_HOOK_SEC
            await self._redeliver_when_free(message)
        else:
            await message.delivery.ack()

    async def _redeliver_when_free(self, message: HookMessage) -> None:
        await self._redeliver_after(message, min(message.deliveries * _BUSY_SEC, _MAX_BUSY_SEC))

    def _forget_busy(self) -> None:
        now = time.monotonic()
        self._busy = {owner: until for owner, until in self._busy.items() if until > now}

    async def _hook_of(self, message: HookMessage) -> HookRecord | None:
        if message.hook_id is None:
            return None
        hook = self._directory.get(message.tenant_id, message.hook_id)
        if hook is None:
            # Perhaps another gateway has just created it. The message of an unknown hook is removed for good.
            await self._directory.caught_up(entirely=True)
            hook = self._directory.get(message.tenant_id, message.hook_id)
        return hook if hook is not None and hook.kind is HookKind.NATS else None

    async def _terminate(self, message: HookMessage, why: str) -> None:
        spec = Err.HOOK_MESSAGE_REFUSED
        log.warning(
            "%s: %s: %s",
            spec.en,
            shortened(message.delivery.subject),
            why,
            extra=spec.log_fields(hook_id=message.hook_id),
        )
        with suppress(NatsUnavailable):
            await message.delivery.term()

    async def _redeliver_after(self, message: HookMessage, delay_sec: float) -> None:
        with suppress(NatsUnavailable):
            await message.delivery.nak(delay_sec)
