"""The history of the wheels: one entry for each upload and each deletion."""

import time
from typing import Final
from uuid import uuid4

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import read_all, stream_state
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.run_models import encode
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.workers.wheel_models import Source, WheelAction, WheelActor, WheelEvent

# How many sequences are read at a time, going back.
_WINDOW: Final = 512

_decode = record_decoder(WheelEvent)


class WheelHistory:
    """The `pyoco_wheel_history` bucket; its TTL removes old entries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.wheel_history_kv_bucket)
        self._stream = self._bucket.stream
        self._all = f"{self._bucket.prefix}*"
        self._reader = RecordReader(connection, RecordKind.WHEEL_EVENT, _decode)

    async def add(self, event: WheelEvent) -> None:
        await self._bucket.create(event.event_id, encode(event))

    async def newest(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> list[WheelEvent]:
        """The entries that match, the newest first.

        A stream can only be read forwards: a window of sequences is read, then the one before it.
        """
        found: list[WheelEvent] = []
        state = await stream_state(self._connection, self._stream)
        highest = state.last_sequence
        while highest >= max(1, state.first_sequence) and len(found) < limit:
            lowest = max(1, state.first_sequence, highest - _WINDOW + 1)
            for event in reversed(await self._between(lowest, highest)):
                if wheel_name in (None, event.wheel_name) and action in (None, event.action):
                    found.append(event)
            highest = lowest - 1
        return found[:limit]

    async def _between(self, lowest: int, highest: int) -> list[WheelEvent]:
        events: list[WheelEvent] = []
        async for message in read_all(self._connection, self._stream, self._all, after=lowest - 1):
            if message.sequence > highest:
                break
            event_id = message.subject.removeprefix(self._bucket.prefix)
            event = self._reader.find(event_id, Entry(message.data, message.sequence))
            if event is not None:
                events.append(event)
        return events


def new_event(
    action: WheelAction,
    wheel_name: str,
    *,
    tags: list[str],
    size_bytes: int,
    sha256_hex: str | None,
    replace: bool | None,
    actor: WheelActor,
    source: Source,
) -> WheelEvent:
    return WheelEvent(
        event_id=uuid4().hex,
        occurred_at=time.time(),
        action=action,
        wheel_name=wheel_name,
        tags=tags,
        size_bytes=size_bytes,
        sha256_hex=sha256_hex,
        replace=replace,
        actor=actor,
        source=source,
    )
