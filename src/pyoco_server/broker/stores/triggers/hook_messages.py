"""Messages for hooks of the kind `nats`, as a queue: each is delivered to one gateway at a time.

All gateways share one durable consumer of the stream. A message leaves it when its run is stored; one that is
not acknowledged is redelivered.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import msgspec
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message, delivery_tokens
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.jetstream_api import ConsumerGone
from pyoco_server.broker.queue.tag_consumers import DeliveryLimits
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.ids import NO_TENANT

INTAKE_CONSUMER: Final = "pyoco_intake"

ACK_WAIT_SEC: Final = 30.0
_LIMITS: Final = DeliveryLimits(ACK_WAIT_SEC, max_deliver=0)
_PULL_EXPIRES_SEC: Final = 5.0
_MARGIN_SEC: Final = 5.0
# Messages that wait for the end of a run of their hook must not stop those of other hooks.
_NO_LIMIT: Final = -1
_EMPTY: Final = frozenset({"404", "408"})


@dataclass(frozen=True, slots=True)
class HookMessage:
    # None: the subject is not that of a hook.
    hook_id: str | None
    tenant_id: str | None
    # Their names in lower case.
    headers: dict[str, str]
    body: bytes
    # Of this message and no other, also not of one in a later stream of this name.
    message_id: str
    # How often NATS has delivered it, this time included.
    deliveries: int
    delivery: Delivery


def subject_of(config: NatsBackendConfig, tenant_id: str | None, hook_id: str) -> str:
    """Where messages for this hook are published."""
    return f"{config.event_intake_subject_prefix}.{tenant_id or NO_TENANT}.{hook_id}"


class HookMessages:
    """The durable consumer of `PYOCO_EVENTS_IN`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.event_intake_stream
        self._prefix = connection.config.event_intake_subject_prefix
        self._inbox = RenewableSubscription(connection, self._on_message)
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()

    async def ensure_consumer(self) -> None:
        config = ConsumerConfig(
            durable_name=INTAKE_CONSUMER,
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SEC,
            max_deliver=-1,
            max_ack_pending=_NO_LIMIT,
        )
        await jetstream_api.ensure_consumer(self._connection, self._stream, config)

    async def next(self, limit: int) -> list[HookMessage]:
        """The next messages, none after a while; for one caller at a time."""
        if await self._inbox.renew():
            self._arrived = asyncio.Queue()
        first = await self._pull({"batch": 1, "expires": int(_PULL_EXPIRES_SEC * 1e9)}, 1)
        if not first or limit == 1:
            return first
        # And what else is there.
        return first + await self._pull({"batch": limit - 1, "no_wait": True}, limit - 1)

    async def _pull(self, pull: dict[str, object], limit: int) -> list[HookMessage]:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{INTAKE_CONSUMER}"
        await self._connection.publish(subject, msgspec.json.encode(pull), reply=self._inbox.subject)
        found: list[HookMessage] = []
        try:
            async with asyncio.timeout(_PULL_EXPIRES_SEC + _MARGIN_SEC):
                while len(found) < limit:
                    message = await self._arrived.get()
                    if message.status in _EMPTY:
                        break
                    if message.status is not None:
                        raise ConsumerGone(f"{message.status} {message.headers['Description']}")
                    found.append(self._read(message))
        except TimeoutError:
            # A late reply must not be taken for the reply to the next pull.
            await self.end_pull()
            raise ConsumerGone("no reply to a pull") from None
        return found

    async def end_pull(self) -> None:
        """End the pull that waits at the server, which drops pulls without a subscriber."""
        await self._inbox.end()

    def _on_message(self, message: Message) -> None:
        self._arrived.put_nowait(message)

    def _read(self, message: Message) -> HookMessage:
        parts = message.subject.removeprefix(f"{self._prefix}.").split(".")
        tenant, hook_id = parts if len(parts) == 2 else (None, None)
        deliveries, sequence, _, stored_ns, *_ = delivery_tokens(message.reply)
        return HookMessage(
            hook_id,
            None if tenant == NO_TENANT else tenant,
            {name.lower(): value for name, value in message.headers.items()},
            message.data,
            f"{sequence}-{stored_ns}",
            int(deliveries),
            Delivery(
                self._connection,
                message,
                tag="",
                limits=_LIMITS,
                sent_at=time.monotonic(),
            ),
        )


def intake_access(config: NatsBackendConfig) -> list[str]:
    """The subjects that a gateway publishes to for this."""
    consumer = f"{config.event_intake_stream}.{INTAKE_CONSUMER}"
    calls = ("DURABLE.CREATE", "INFO", "MSG.NEXT")
    return [*(f"$JS.API.CONSUMER.{call}.{consumer}" for call in calls), f"$JS.ACK.{consumer}.>"]
