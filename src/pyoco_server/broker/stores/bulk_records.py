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

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.records.models import RerunMode

log = logging.getLogger(__name__)

# Run ids of 36 characters: a part is well below what a message may carry.
PART_ITEMS = 2000


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RERUN = "rerun"
    REPLAY_LETTERS = "dlq-replay"
    DELETE_LETTERS = "dlq-delete"

    @property
    def of_letters(self) -> bool:
        return self in (BulkAction.REPLAY_LETTERS, BulkAction.DELETE_LETTERS)


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
    # When its first items were taken: until then it can be withdrawn.
    started_at: float | None = None
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

    @property
    def begun(self) -> bool:
        # A gateway of an earlier version does not write `started_at`.
        return self.started_at is not None or self.handled > 0 or self.state is not BulkState.RUNNING


class BulkItem(Struct, frozen=True):
    """A run, or a dead letter: its sequence may come to be that of another one, its content does not."""

    name: str
    # Of a dead letter: the digest of its content. None where an earlier version has stored the item.
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class StoredBulk:
    record: BulkRecord
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(BulkRecord).decode
_decode_list = msgspec.json.Decoder(list[str]).decode
# The digests of a part are stored beside it, so that gateways of an earlier version can read the part.
_DIGESTS = "digests"


class BulkRecords:
    """The `pyoco_bulk` bucket."""

    def __init__(self, connection: Connection) -> None:
        name = connection.config.bulk_kv_bucket
        self._connection = connection
        self._bucket = Bucket(connection, name)
        self._stream = f"KV_{name}"
        # The records alone: the key of a part has a dot.
        self.subject = f"$KV.{name}.*"

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
        """Keep an id that no operation has from ever getting one; RevisionConflict if there is one by now."""
        try:
            await self._bucket.delete(bulk_id, revision=0)
        except RevisionConflict:
            if await self._bucket.get_from_leader(bulk_id) is not None:
                raise

    async def get(self, bulk_id: str) -> StoredBulk | None:
        entry = await self._bucket.get_from_leader(bulk_id)
        return None if entry is None else StoredBulk(_decode(entry.value), entry.revision)

    async def replace(self, record: BulkRecord, *, revision: int) -> StoredBulk:
        """Write over exactly `revision`; RevisionConflict if somebody else wrote since."""
        return StoredBulk(
            record, await self._bucket.update(record.bulk_id, _encode(record), revision=revision)
        )

    async def items(self, record: BulkRecord, count: int) -> list[BulkItem] | None:
        """The next items to deal with, `count` at most; None when they are not stored any more."""
        part, start = divmod(record.handled, PART_ITEMS)
        items = await self._part(record, part)
        return None if items is None else items[start : start + count]

    async def first_items(self, record: BulkRecord, count: int) -> list[BulkItem]:
        """As many of all its items; none when they are not stored any more."""
        return (await self._part(record, 0) or [])[:count]

    async def _part(self, record: BulkRecord, part: int) -> list[BulkItem] | None:
        key = f"{record.bulk_id}.{part}"
        entry: Entry | None = await self._bucket.get(key)
        if entry is None:
            return None
        names = _decode_list(entry.value)
        found = await self._bucket.get(f"{key}.{_DIGESTS}") if record.action.of_letters else None
        digests = [None] * len(names) if found is None else _decode_list(found.value)
        return [BulkItem(*pair) for pair in zip(names, digests, strict=True)]

    async def written_since(self, revision: int) -> tuple[list[BulkRecord], int]:
        """The records that were written behind the revision, and up to which one that is."""
        records: list[BulkRecord] = []
        while batch := await read_batch(self._connection, self._stream, self.subject, after=revision):
            records += [record for record in map(_readable, batch) if record is not None]
            revision = batch[-1].sequence
        return records, revision


def _readable(message: StreamMessage) -> BulkRecord | None:
    if message.is_marker:
        return None
    try:
        return _decode(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s holds no bulk operation: %s", message.subject, error)
        return None
