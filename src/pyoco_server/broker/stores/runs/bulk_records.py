"""Stored bulk operations: the action, the items, and the progress.

The items are stored in parts of their own, before the record: any gateway can execute a record that exists.
The bucket's TTL removes both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import read_all
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.bulk_models import BulkItem, BulkRecord
from pyoco_server.records.unreadable_records import RecordKind

# Run ids have 36 characters: a part is well below the limit of a message.
PART_ITEMS = 2000


@dataclass(frozen=True, slots=True)
class StoredBulk:
    record: BulkRecord
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = record_decoder(BulkRecord)
_decode_list = record_decoder(list[str])
# The digests of a part are stored beside it, so that gateways of an earlier version can read the part.
_DIGESTS = "digests"


class BulkRecords:
    """The `pyoco_bulk` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.bulk_kv_bucket)
        # The records alone: the key of a part has a dot.
        self.subject = f"{self._bucket.prefix}*"
        self._reader = RecordReader(connection, RecordKind.BULK, _decode, key_of=attrgetter("bulk_id"))
        self._part_reader = RecordReader(connection, RecordKind.BULK, _decode_list)

    async def create(self, record: BulkRecord, items: Sequence[BulkItem]) -> StoredBulk:
        """RevisionConflict if the id was forbidden meanwhile."""
        for part, start in enumerate(range(0, len(items), PART_ITEMS)):
            await self._create_part(f"{record.bulk_id}.{part}", items[start : start + PART_ITEMS])
        return StoredBulk(record, await self._bucket.update(record.bulk_id, _encode(record), revision=0))

    async def _create_part(self, key: str, items: Sequence[BulkItem]) -> None:
        digests = [item.digest for item in items if item.digest is not None]
        if digests:
            await self._bucket.create(f"{key}.{_DIGESTS}", _encode(digests))
        await self._bucket.create(key, _encode([item.name for item in items]))

    async def delete(self, bulk_id: str, *, revision: int) -> None:
        await self._bucket.delete(bulk_id, revision=revision)

    async def forbid(self, bulk_id: str) -> None:
        """Keep an unused id from being used; RevisionConflict if it has an operation by now."""
        await self._bucket.forbid(bulk_id)

    async def get(self, bulk_id: str) -> StoredBulk | None:
        """UnreadableRecord if the value is not a bulk operation."""
        entry = await self._bucket.get_from_leader(bulk_id)
        return None if entry is None else StoredBulk(self._reader.read(bulk_id, entry), entry.revision)

    async def replace(self, record: BulkRecord, *, revision: int) -> StoredBulk:
        """Replace exactly `revision`; RevisionConflict if it was written since."""
        return StoredBulk(
            record, await self._bucket.update(record.bulk_id, _encode(record), revision=revision)
        )

    async def items(self, record: BulkRecord, count: int) -> list[BulkItem] | None:
        """The next items, `count` at most; None when they are not stored any more."""
        part, start = divmod(record.handled, PART_ITEMS)
        items = await self._part(record, part)
        return None if items is None else items[start : start + count]

    async def first_items(self, record: BulkRecord, count: int) -> list[BulkItem]:
        """The first items, `count` at most; none when they are not stored any more."""
        return (await self._part(record, 0) or [])[:count]

    async def _part(self, record: BulkRecord, part: int) -> list[BulkItem] | None:
        key = f"{record.bulk_id}.{part}"
        names = await self._strings(key)
        if names is None:
            return None
        found = await self._strings(f"{key}.{_DIGESTS}") if record.action.of_letters else None
        digests = [None] * len(names) if found is None else found
        if len(digests) != len(names):
            raise UnreadableRecord(f"{key} has {len(names)} items and {len(digests)} digests")
        return [BulkItem(*pair) for pair in zip(names, digests, strict=True)]

    async def _strings(self, key: str) -> list[str] | None:
        entry: Entry | None = await self._bucket.get(key)
        return None if entry is None else self._part_reader.read(key, entry)

    async def written_since(self, revision: int) -> tuple[list[BulkRecord], int]:
        """The records that were written after the revision, and the last revision."""
        records: list[BulkRecord] = []
        async for message in read_all(self._connection, self._bucket.stream, self.subject, after=revision):
            revision = message.sequence
            if message.is_marker:
                continue
            bulk_id = message.subject.removeprefix(self._bucket.prefix)
            record = self._reader.find(bulk_id, Entry(message.data, message.sequence))
            if record is not None:
                records.append(record)
        return records, revision
