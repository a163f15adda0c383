"""Finds the stored records that cannot be read, and removes one: for an operator, without a gateway.

Only records that are stored under a key of their own: unreadable entries of a log, a journal or a history are
left out when they are read, and are removed with their run.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import EVERYTHING, StreamMessage, message_at, read_all
from pyoco_server.broker.stores.runs.idempotency_keys import KeyRecord
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.agent.request_models import decode_request
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.monitoring.alert_models import decode_alert
from pyoco_server.records.runs.bulk_models import BulkRecord
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import decode_snapshot
from pyoco_server.records.runs.saved_view_models import decode_views
from pyoco_server.records.schedules.schedule_models import decode_schedule
from pyoco_server.records.triggers.hook_models import HOOK_PREFIX, decode_hook
from pyoco_server.records.triggers.trigger_models import (
    ACTION_PREFIX,
    CHAT_PREFIX,
    TEMPLATE_PREFIX,
    decode_action,
    decode_chat_settings,
    decode_template,
)
from pyoco_server.records.triggers.workflow_event_models import decode_receipt, decode_retry_job
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.signal_models import decode_mailbox
from pyoco_server.records.waits.wait_models import decode_wait
from pyoco_server.records.workers.wheel_models import WheelEvent
from pyoco_server.records.workers.worker_models import decode_worker

_BATCH: Final = 512
_BATCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FoundRecord:
    kind: RecordKind
    key: str
    revision: int
    # In unix seconds, by the server's clock.
    stored_at: float
    problem: str


@dataclass(frozen=True, slots=True)
class _Bucket:
    name: str
    decode: Callable[[bytes], object]
    # The field with the key.
    key_field: str | None = None
    # Whether it may have a million keys.
    large: bool = False
    # What the keys of this kind begin with, in a bucket of several kinds.
    prefix: str | tuple[str, ...] = ""

    def key_in(self, record: object) -> str:
        assert self.key_field is not None
        return str(getattr(record, self.key_field))


def _buckets(config: NatsBackendConfig) -> dict[RecordKind, _Bucket]:
    return {
        RecordKind.RUN: _Bucket(config.runs_kv_bucket, decode_snapshot, "run_id", large=True),
        RecordKind.WAIT: _Bucket(config.waits_kv_bucket, decode_wait, "wait_id", large=True),
        RecordKind.WORKER: _Bucket(config.workers_kv_bucket, decode_worker, "worker_id"),
        RecordKind.BULK: _Bucket(config.bulk_kv_bucket, record_decoder(BulkRecord), "bulk_id"),
        RecordKind.SCHEDULE: _Bucket(config.schedules_kv_bucket, decode_schedule, "key"),
        RecordKind.IDEMPOTENCY_KEY: _Bucket(config.idempotency_kv_bucket, record_decoder(KeyRecord)),
        RecordKind.WHEEL_EVENT: _Bucket(config.wheel_history_kv_bucket, record_decoder(WheelEvent)),
        RecordKind.SIGNALS: _Bucket(config.signals_kv_bucket, decode_mailbox, "run_id", large=True),
        RecordKind.HOOK: _Bucket(config.triggers_kv_bucket, decode_hook, "key", prefix=f"{HOOK_PREFIX}."),
        RecordKind.TEMPLATE: _Bucket(
            config.triggers_kv_bucket, decode_template, "key", prefix=f"{TEMPLATE_PREFIX}."
        ),
        RecordKind.ACTION: _Bucket(
            config.triggers_kv_bucket, decode_action, "key", prefix=f"{ACTION_PREFIX}."
        ),
        RecordKind.CHAT_SETTINGS: _Bucket(
            config.triggers_kv_bucket, decode_chat_settings, "key", prefix=f"{CHAT_PREFIX}."
        ),
        RecordKind.RETRY_JOB: _Bucket(config.event_retries_kv_bucket, decode_retry_job, "key"),
        RecordKind.REQUEST: _Bucket(config.requests_kv_bucket, decode_request, "key"),
        RecordKind.VIEWS: _Bucket(config.views_kv_bucket, decode_views, "key"),
        RecordKind.ALERT: _Bucket(config.alerts_kv_bucket, decode_alert, "key"),
        RecordKind.RECEIPT: _Bucket(
            config.receipts_kv_bucket, decode_receipt, large=True, prefix=("template.", "hook.")
        ),
    }


REMOVABLE: Final = (
    RecordKind.RUN,
    RecordKind.WAIT,
    RecordKind.WORKER,
    RecordKind.BULK,
    RecordKind.SCHEDULE,
    RecordKind.IDEMPOTENCY_KEY,
    RecordKind.WHEEL_EVENT,
    RecordKind.SIGNALS,
    RecordKind.HOOK,
    RecordKind.TEMPLATE,
    RecordKind.ACTION,
    RecordKind.CHAT_SETTINGS,
    RecordKind.RETRY_JOB,
    RecordKind.REQUEST,
    RecordKind.VIEWS,
    RecordKind.ALERT,
    RecordKind.RECEIPT,
    RecordKind.DEAD_LETTER,
)


class UnreadableScan:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buckets = _buckets(connection.config)
        self._dlq = connection.config.dlq_stream

    async def all(self) -> AsyncIterator[FoundRecord]:
        """Every unreadable record, bucket by bucket."""
        for kind, bucket in self._buckets.items():
            async for found in self._in_bucket(kind, bucket):
                yield found
        letters = self._reader(RecordKind.DEAD_LETTER)
        async for message in read_all(self._connection, self._dlq, EVERYTHING):
            if found_letter := _problem(letters, RecordKind.DEAD_LETTER, str(message.sequence), message):
                yield found_letter

    async def remove(self, kind: RecordKind, key: str) -> bool:
        """Remove a record; false if there is none. A record that can be read stays: ValueError."""
        if kind is RecordKind.DEAD_LETTER:
            return await self._remove_letter(int(key))
        bucket = Bucket(self._connection, self._buckets[kind].name)
        entry = await bucket.get_from_leader(key)
        if entry is None:
            return False
        self._require_unreadable(kind, key, entry)
        # With a marker, which every gateway reads.
        await bucket.delete(key, revision=entry.revision)
        return True

    async def _remove_letter(self, sequence: int) -> bool:
        message = await message_at(self._connection, self._dlq, sequence)
        if message is None:
            return False
        self._require_unreadable(RecordKind.DEAD_LETTER, str(sequence), Entry(message.data, sequence))
        await jetstream_api.delete_message(self._connection, self._dlq, sequence)
        return True

    def _require_unreadable(self, kind: RecordKind, key: str, entry: Entry) -> None:
        if self._reader(kind).find(key, entry) is not None:
            raise ValueError(f"{kind} {key} can be read, and is not removed")

    async def _in_bucket(self, kind: RecordKind, bucket: _Bucket) -> AsyncIterator[FoundRecord]:
        reader = self._reader(kind)
        prefix = f"$KV.{bucket.name}."
        async for message in self._messages(bucket):
            key = message.subject.removeprefix(prefix)
            # The parts of a bulk operation belong to its record.
            if message.is_marker or (kind is RecordKind.BULK and "." in key):
                continue
            if not key.startswith(bucket.prefix):
                continue
            if found := _problem(reader, kind, key, message):
                yield found

    async def _messages(self, bucket: _Bucket) -> AsyncIterator[StreamMessage]:
        stream = f"KV_{bucket.name}"
        if not bucket.large:
            async for message in read_all(self._connection, stream, EVERYTHING):
                yield message
            return
        cursor = StreamCursor(self._connection, stream)
        after = 0
        try:
            while batch := await cursor.read(after=after, limit=_BATCH, max_bytes=_BATCH_BYTES):
                for message in batch:
                    yield message
                after = batch[-1].sequence
        finally:
            await cursor.close()

    def _reader(self, kind: RecordKind) -> RecordReader[object]:
        if kind is RecordKind.DEAD_LETTER:
            return RecordReader(self._connection, kind, record_decoder(DeadLetter))
        bucket = self._buckets[kind]
        key_of = bucket.key_in if bucket.key_field else None
        return RecordReader(self._connection, kind, bucket.decode, key_of=key_of)


def _problem(
    reader: RecordReader[object], kind: RecordKind, key: str, message: StreamMessage
) -> FoundRecord | None:
    try:
        reader.read(key, Entry(message.data, message.sequence))
    except UnreadableRecord as error:
        # Without the kind, key and revision, which it begins with.
        _, _, problem = error.detail.partition(": ")
        return FoundRecord(kind, key, message.sequence, message.stored_at, problem)
    return None
