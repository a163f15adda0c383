"""Stored receipts: the run of an idempotency key. The server removes each at the end of its time to live."""

import math
from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.triggers.workflow_event_models import Receipt, decode_receipt, encode_record
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.signal_models import digest_token

_TTL: Final = "Nats-TTL"
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """Of one idempotency key of one owner, such as `template:monthly`."""

    tenant_id: str | None
    owner: str
    text: str

    @property
    def group(self) -> str:
        """The receipts of a tenant for one kind of owner."""
        return f"{self.owner.partition(':')[0]}.{self.tenant_id or NO_TENANT}"

    @property
    def stored_as(self) -> str:
        # An owner has no line break.
        name = f"{self.owner}\n{self.text}"
        return f"{self.group}.{digest_token(name)}"


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    key: ReceiptKey
    record: Receipt
    revision: int


class ReceiptStore:
    """The `pyoco_receipts` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.receipts_kv_bucket)
        self._reader = RecordReader(connection, RecordKind.RECEIPT, decode_receipt)

    async def get(self, key: ReceiptKey) -> StoredReceipt | None:
        """As the leader knows it; UnreadableRecord if it is in use and cannot be read."""
        entry = await self._bucket.get_from_leader(key.stored_as)
        if entry is None:
            return None
        return StoredReceipt(key, self._reader.read(key.stored_as, entry), entry.revision)

    async def create(self, key: ReceiptKey, record: Receipt, *, now: float) -> StoredReceipt:
        """RevisionConflict if there is one."""
        return await self._write(key, record, 0, now)

    async def replace(self, stored: StoredReceipt, record: Receipt, *, now: float) -> StoredReceipt:
        """Replace exactly what was read; RevisionConflict if it was written since."""
        return await self._write(stored.key, record, stored.revision, now)

    async def remove(self, stored: StoredReceipt) -> None:
        """Without a marker: the key is free again."""
        subject = self._bucket.prefix + stored.key.stored_as
        await jetstream_api.purge(self._connection, self._bucket.stream, subject, upto=stored.revision)

    async def remove_oldest(self, group: str, *, keep: int) -> int:
        """Remove the oldest receipts of a group beyond so many; returns how many those were."""
        subject = f"{self._bucket.prefix}{group}.*"
        removed = 0
        oldest = await read_batch(self._connection, self._bucket.stream, subject, limit=1)
        # Each message says how many come after it.
        excess = oldest[0].num_pending + 1 - keep if oldest else 0
        while removed < excess:
            limit = min(excess - removed, _BATCH)
            oldest = await read_batch(self._connection, self._bucket.stream, subject, limit=limit)
            if not oldest:
                break
            for message in oldest:
                await jetstream_api.purge(
                    self._connection, self._bucket.stream, message.subject, upto=message.sequence
                )
            removed += len(oldest)
        return removed

    async def _write(self, key: ReceiptKey, record: Receipt, revision: int, now: float) -> StoredReceipt:
        encoded = encode_record(record)
        room = self._connection.max_record_bytes
        if len(encoded) > room:
            message = (
                f"the event takes {len(encoded)} bytes with its params, and the NATS server accepts {room}; "
                "send a reference to large data"
            )
            raise InvalidRequest(problems=[FieldProblem("payload", message)])
        ttl_sec = max(1, math.ceil(record.expires_at - now))
        headers = {_EXPECTED: str(revision), _TTL: f"{ttl_sec}s"}
        subject = self._bucket.prefix + key.stored_as
        written = await publish_acked(self._connection, subject, encoded, headers)
        return StoredReceipt(key, record, written)
