"""What is kept of the deliveries of hooks: the newest of each, in a stream.

The summary of a delivery is a header of its message, and what was sent is the message: a list reads headers
only. Refused deliveries have a subject of their own, so that strangers do not displace the others.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from nats.js.api import DeliverPolicy

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import delivery_tokens
from pyoco_server.broker.client.subscriptions import DeliveryInbox
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_cursor import new_reader
from pyoco_server.broker.jetstream.stream_reads import message_after
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.triggers.hook_models import (
    DeliveryContent,
    DeliverySummary,
    decode_content,
    decode_summary,
    encode_delivery,
)
from pyoco_server.records.unreadable_records import RecordKind

_SUMMARY: Final = "Pyoco-Delivery"
_INACTIVE_SEC: Final = 10.0
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class HookInstance:
    """Whose deliveries: of this hook, not of an earlier one with its id."""

    tenant_id: str | None
    hook_id: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class KeptDelivery:
    delivery_id: int
    summary: DeliverySummary
    # None in a list.
    content: DeliveryContent | None = None


class DeliveryStore:
    """The stream `PYOCO_DELIVERIES`: subjects `<prefix>.<tenant>.<hook>.<incarnation>.accepted|refused`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.hook_delivery_stream
        self._prefix = connection.config.hook_delivery_subject_prefix
        self._summaries = RecordReader(connection, RecordKind.HOOK_DELIVERY, decode_summary)
        self._contents = RecordReader(connection, RecordKind.HOOK_DELIVERY, decode_content)

    async def add(
        self, hook: HookInstance, summary: DeliverySummary, content: DeliveryContent, *, refused: bool = False
    ) -> int:
        """Keep a delivery; the oldest one of the hook is removed at the limit. Returns its id."""
        subject = f"{self._subject(hook)}.{'refused' if refused else 'accepted'}"
        # JSON has no line breaks, as a header must not.
        headers = {_SUMMARY: encode_delivery(summary).decode()}
        return await publish_acked(self._connection, subject, encode_delivery(content), headers)

    async def all_of(self, hook: HookInstance) -> list[KeptDelivery]:
        """All that are kept, the newest first, without their contents."""
        inbox = DeliveryInbox(self._connection)
        await inbox.renew()
        try:
            consumer = await self._new_consumer(hook)
            found: list[KeptDelivery] = []
            while await self._pull(consumer, inbox, found) == _BATCH:
                pass
        finally:
            await inbox.end()
        return sorted(found, key=lambda each: each.delivery_id, reverse=True)

    async def get(self, hook: HookInstance, delivery_id: int) -> KeptDelivery | None:
        """None if it is not kept any more, or is of another hook."""
        message = await message_after(self._connection, self._stream, delivery_id - 1)
        if message is None or message.sequence != delivery_id:
            return None
        if message.subject.rpartition(".")[0] != self._subject(hook):
            return None
        entry = Entry(message.data, delivery_id)
        name = f"{hook.hook_id}#{delivery_id}"
        content = self._contents.read(name, entry)
        summary = self._summaries.read(name, Entry(_header(message.headers), delivery_id))
        return KeptDelivery(delivery_id, summary, content)

    async def remove_all(self, hook: HookInstance) -> None:
        await jetstream_api.purge(self._connection, self._stream, f"{self._subject(hook)}.*")

    async def _new_consumer(self, hook: HookInstance) -> str:
        subject = self._subject(hook)
        return await new_reader(
            self._connection,
            self._stream,
            inactive_sec=_INACTIVE_SEC,
            deliver_policy=DeliverPolicy.ALL,
            # Two of them: the rights of a gateway do not name the filter.
            filter_subjects=[f"{subject}.accepted", f"{subject}.refused"],
            headers_only=True,
        )

    async def _pull(self, consumer: str, inbox: DeliveryInbox, found: list[KeptDelivery]) -> int:
        """Add the next ones; returns how many came, with those that cannot be read."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
        pull = msgspec.json.encode({"batch": _BATCH, "no_wait": True})
        received = 0
        async for message in self._connection.request_many(subject, pull, inbox=inbox):
            if message.status is not None:
                break
            received += 1
            sequence = int(delivery_tokens(message.reply)[1])
            entry = Entry(_header(message.headers), sequence)
            if (summary := self._summaries.find(f"{message.subject}#{sequence}", entry)) is not None:
                found.append(KeptDelivery(sequence, summary))
            if received == _BATCH:
                break
        return received

    def _subject(self, hook: HookInstance) -> str:
        return f"{self._prefix}.{hook.tenant_id or NO_TENANT}.{hook.hook_id}.{hook.incarnation}"


def _header(headers: dict[str, str]) -> bytes:
    return headers.get(_SUMMARY, "").encode()
