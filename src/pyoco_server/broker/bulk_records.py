"""Bulk operations at rest: what is to be done to which items, and how far it has come.

The items are stored in parts of their own, before the record: a record that is there can be carried out by
whichever gateway finds it. The bucket's TTL forgets both.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import Struct

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.kv import Bucket, Entry
from pyoco_server.broker.stream_reads import StreamMessage, read_batch
from pyoco_server.models import RerunMode

log = logging.getLogger(__name__)

# Run ids of 36 characters: a part is well below what a message may carry.
PART_ITEMS = 2000


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RERUN = "rerun"
    REPLAY_LETTERS = "dlq-replay"
    DELETE_LETTERS = "dlq-delete"


class BulkState(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"


class BulkError(Struct, kw_only=True):
    """Why something could not be done to one item."""

    item: str
    err_id: str | None
    message: str


class BulkRecord(Struct, kw_only=True):
    """One bulk operation: bucket `pyoco_bulk`, key `<bulk_id>`; its items are in `<bulk_id>.<part>`."""

    bulk_id: str
    action: BulkAction
    state: BulkState
    # The filter as it was asked for, for people.
    query: dict[str, list[str]]
    matched: int
    # Dealt with so far, in the order of the items: done; nothing to do; could not be done.
    done: int = 0
    skipped: int = 0
    failed: int = 0
    # The first ones.
    errors: list[BulkError] = []
    created_at: float
    updated_at: float
    finished_at: float | None = None
    # How it is to be done.
    mode: RerunMode | None = None
    reason: str | None = None
    delete: bool = False
    # Whose operation it is, and whose key began it; None where no keys are asked for.
    tenant_id: str | None = None
    api_key_id: str | None = None

    @property
    def handled(self) -> int:
        return self.done + self.skipped + self.failed


@dataclass(frozen=True, slots=True)
class StoredBulk:
    record: BulkRecord
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(BulkRecord).decode
_decode_items = msgspec.json.Decoder(list[str]).decode


class BulkRecords:
    """The `pyoco_bulk` bucket."""

    def __init__(self, connection: Connection) -> None:
        name = connection.config.bulk_kv_bucket
        self._connection = connection
        self._bucket = Bucket(connection, name)
        self._stream = f"KV_{name}"
        # The records alone: the key of a part has a dot.
        self.subject = f"$KV.{name}.*"

    async def create(self, record: BulkRecord, items: Sequence[str]) -> StoredBulk:
        for part, start in enumerate(range(0, len(items), PART_ITEMS)):
            await self._bucket.create(f"{record.bulk_id}.{part}", _encode(items[start : start + PART_ITEMS]))
        return StoredBulk(record, await self._bucket.create(record.bulk_id, _encode(record)))

    async def get(self, bulk_id: str) -> StoredBulk | None:
        entry = await self._bucket.get_from_leader(bulk_id)
        return None if entry is None else StoredBulk(_decode(entry.value), entry.revision)

    async def replace(self, record: BulkRecord, *, revision: int) -> StoredBulk:
        """Write over exactly `revision`; RevisionConflict if somebody else wrote since."""
        return StoredBulk(
            record, await self._bucket.update(record.bulk_id, _encode(record), revision=revision)
        )

    async def items(self, record: BulkRecord, count: int) -> list[str] | None:
        """The next items to deal with, `count` at most; None when they are not stored any more."""
        part, start = divmod(record.handled, PART_ITEMS)
        entry: Entry | None = await self._bucket.get(f"{record.bulk_id}.{part}")
        return None if entry is None else _decode_items(entry.value)[start : start + count]

    async def written_since(self, revision: int) -> tuple[list[BulkRecord], int]:
        """The records that were written behind the revision, and up to which one that is."""
        records: list[BulkRecord] = []
        while batch := await read_batch(self._connection, self._stream, self.subject, after=revision):
            records += [record for record in map(_readable, batch) if record is not None]
            revision = batch[-1].sequence
        return records, revision


def _readable(message: StreamMessage) -> BulkRecord | None:
    try:
        return _decode(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s holds no bulk operation: %s", message.subject, error)
        return None
