"""Idempotency keys at rest: which run or bulk operation a key stands for, and whether it was accepted.

The bucket's TTL forgets them. A key is kept by its digest: what clients send is no subject token. Every
tenant has keys of its own, and cannot see those of the others.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.records.models import RunId


class KeyKind(StrEnum):
    RUN = "run"
    BULK = "bulk"


class KeyRecord(Struct, kw_only=True, omit_defaults=True):
    """What a key stands for."""

    # The id of the run, or of the bulk operation.
    run_id: RunId
    kind: KeyKind = KeyKind.RUN
    # Of a run that repeats another one.
    origin_run_id: RunId | None = None
    # Of the payload that it was first sent with.
    digest: str
    # When somebody last said that this submission is under way.
    touched_at: float
    # The run is stored and queued: from here on the key stands for it.
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    # As it was sent.
    text: str
    tenant_id: str | None = None

    @property
    def stored_as(self) -> str:
        # No text has a line break: a tenant's keys are never those of nobody.
        scoped = self.text if self.tenant_id is None else f"{self.tenant_id}\n{self.text}"
        return sha256(scoped.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A record with the revision that a write over it must name."""

    key: IdempotencyKey
    record: KeyRecord
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KeyRecord).decode


class IdempotencyKeys:
    """The `pyoco_idempotency` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._bucket = Bucket(connection, connection.config.idempotency_kv_bucket)

    async def get(self, key: IdempotencyKey) -> StoredKey | None:
        entry = await self._bucket.get_from_leader(key.stored_as)
        return None if entry is None else StoredKey(key, _decode(entry.value), entry.revision)

    async def create(self, key: IdempotencyKey, record: KeyRecord) -> StoredKey:
        """RevisionConflict if the key is in use."""
        return StoredKey(key, record, await self._bucket.create(key.stored_as, _encode(record)))

    async def replace(self, stored: StoredKey, record: KeyRecord) -> StoredKey:
        """Write over exactly what was read; RevisionConflict if somebody else wrote since."""
        name = stored.key.stored_as
        revision = await self._bucket.update(name, _encode(record), revision=stored.revision)
        return StoredKey(stored.key, record, revision)

    async def remove(self, stored: StoredKey) -> None:
        await self._bucket.delete(stored.key.stored_as, revision=stored.revision)
