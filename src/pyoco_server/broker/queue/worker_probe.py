"""Which workers are connected to NATS, as the server knows it.

Each worker process subscribes to a subject of its own: that of wake-ups, with its instance id. The server
replies "no responders" at once to a request on a subject without a subscription. The worker itself replies
nothing: one that is busy or suspended counts as connected, because its connection, and with it its
subscription, stays open. The connection of a process that was killed is closed by its kernel.

Where the gateway cannot see the subscription, because the account of the worker does not import the subject,
a worker looks as a dead one does. So a gateway must have seen it before, and a worker waits for that before
its first run: a request arrives only where the subscription is seen.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from uuid import uuid4

from pyoco_server.broker.client.connection import NO_RESPONDERS, Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.queue.wake_up import wake_up_subject

_INSTANCE_ID = re.compile(r"[0-9a-f]{32}")


def is_instance_id(text: str) -> bool:
    """Whether it may be a part of a subject; workers write their ids themselves."""
    return _INSTANCE_ID.fullmatch(text) is not None


def probed_subscription(
    connection: Connection, instance_id: str, on_probe: Callable[[], None]
) -> RenewableSubscription:
    """The subscription of a worker that shows that it is connected; `on_probe`: a gateway sees it."""
    return RenewableSubscription(connection, lambda _: on_probe(), wake_up_subject(instance_id))


class WorkerProbe:
    """The requests of a gateway, and the replies to them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = f"_INBOX.{uuid4().hex}"
        self._replies = RenewableSubscription(connection, self._on_reply, f"{self._inbox}.*")
        # No worker has this id: the last request of a probe, which is always replied to.
        self._last_id = uuid4().hex
        self._asked = ""
        self._disconnected: set[str] = set()
        self._answered = asyncio.Event()

    async def disconnected(self, instance_ids: Collection[str]) -> set[str]:
        """Those without a connection; NatsUnavailable if the server does not answer."""
        await self._replies.renew()
        self._disconnected.clear()
        self._answered.clear()
        # Late replies to an earlier call do not count.
        self._asked = uuid4().hex
        for instance_id in instance_ids:
            await self._ask(instance_id)
        # Replies come in the order of the requests.
        await self._ask(self._last_id)
        timeout_sec = self._connection.config.nats_request_timeout_sec
        try:
            async with asyncio.timeout(timeout_sec):
                await self._answered.wait()
        except TimeoutError:
            raise self._connection.unavailable(f"no answer within {timeout_sec:g} s to a probe") from None
        return set(self._disconnected)

    async def _ask(self, instance_id: str) -> None:
        reply = f"{self._inbox}.{self._asked}{instance_id}"
        await self._connection.publish(wake_up_subject(instance_id), b"", reply=reply)

    def _on_reply(self, message: Message) -> None:
        asked, instance_id = message.subject[-64:-32], message.subject[-32:]
        if asked != self._asked or message.status != NO_RESPONDERS:
            return
        if instance_id == self._last_id:
            self._answered.set()
        else:
            self._disconnected.add(instance_id)
