"""Idempotency keys at rest: which run a key stands for, and whether that run was accepted.

The bucket's TTL forgets them. A key is kept by its digest: what clients send is no subject token.
"""

from dataclasses import dataclass
from hashlib import sha256

import msgspec
from msgspec import Struct

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.kv import Bucket
from pyoco_server.models import RunId


class KeyRecord(Struct, kw_only=True, omit_defaults=True):
    """What a key stands for."""

    run_id: RunId
    # Of the payload that it was first sent with.
    digest: str
    # When somebody last said that this submission is under way.
    touched_at: float
    # The run is stored and queued: from here on the key stands for it.
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A record with the revision that a write over it must name."""

    key: str
    record: KeyRecord
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KeyRecord).decode


class IdempotencyKeys:
    """The `pyoco_idempotency` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._bucket = Bucket(connection, connection.config.idempotency_kv_bucket)

    async def get(self, key: str) -> StoredKey | None:
        entry = await self._bucket.get_from_leader(_name(key))
        return None if entry is None else StoredKey(key, _decode(entry.value), entry.revision)

    async def create(self, key: str, record: KeyRecord) -> StoredKey:
        """RevisionConflict if the key is in use."""
        return StoredKey(key, record, await self._bucket.create(_name(key), _encode(record)))

    async def replace(self, stored: StoredKey, record: KeyRecord) -> StoredKey:
        """Write over exactly what was read; RevisionConflict if somebody else wrote since."""
        name = _name(stored.key)
        revision = await self._bucket.update(name, _encode(record), revision=stored.revision)
        return StoredKey(stored.key, record, revision)

    async def remove(self, stored: StoredKey) -> None:
        await self._bucket.delete(_name(stored.key), revision=stored.revision)


def _name(key: str) -> str:
    return sha256(key.encode()).hexdigest()
