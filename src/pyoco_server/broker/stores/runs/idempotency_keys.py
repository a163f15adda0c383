"""Stored idempotency keys: the run or bulk operation of a key, and whether it was accepted.

The bucket's TTL removes them. A key is stored under its digest: what clients send is not a subject token.
Each tenant has its own keys.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.value_types import RunId


class KeyKind(StrEnum):
    RUN = "run"
    BULK = "bulk"


class KeyRecord(Struct, kw_only=True, omit_defaults=True):
    # The id of the run, or of the bulk operation.
    run_id: RunId
    kind: KeyKind = KeyKind.RUN
    # Of a rerun.
    origin_run_id: RunId | None = None
    # Of the payload of the first request.
    digest: str
    # When the submission was last reported to be in progress.
    touched_at: Timestamp
    # The run is stored and queued.
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    # As it was sent.
    text: str
    tenant_id: str | None = None

    @property
    def stored_as(self) -> str:
        # A key has no line break: keys of a tenant differ from those without a tenant.
        scoped = self.text if self.tenant_id is None else f"{self.tenant_id}\n{self.text}"
        return sha256(scoped.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredKey:
    key: IdempotencyKey
    record: KeyRecord
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = record_decoder(KeyRecord)


class IdempotencyKeys:
    """The `pyoco_idempotency` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._bucket = Bucket(connection, connection.config.idempotency_kv_bucket)
        self._reader = RecordReader(connection, RecordKind.IDEMPOTENCY_KEY, _decode)

    async def get(self, key: IdempotencyKey) -> StoredKey | None:
        """UnreadableRecord if it is in use and its record cannot be read."""
        entry = await self._bucket.get_from_leader(key.stored_as)
        if entry is None:
            return None
        return StoredKey(key, self._reader.read(key.stored_as, entry), entry.revision)

    async def create(self, key: IdempotencyKey, record: KeyRecord) -> StoredKey:
        """RevisionConflict if the key is in use."""
        return StoredKey(key, record, await self._bucket.create(key.stored_as, _encode(record)))

    async def replace(self, stored: StoredKey, record: KeyRecord) -> StoredKey:
        """Replace exactly what was read; RevisionConflict if it was written since."""
        name = stored.key.stored_as
        revision = await self._bucket.update(name, _encode(record), revision=stored.revision)
        return StoredKey(stored.key, record, revision)

    async def remove(self, stored: StoredKey) -> None:
        await self._bucket.delete(stored.key.stored_as, revision=stored.revision)
