"""API keys at rest. What administrators write and what gateways write are different entries.

`key.<key_id>` is the record of a key: only the admin commands write it. `used.<key_id>` tells when a gateway
saw it last. So a gateway needs no right to make a key or change it, and a use never overwrites a revocation.

A secret is never stored, only its keyed hash.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.config import NatsBackendConfig

log = logging.getLogger(__name__)

_KEY: Final = "key."
_USED: Final = "used."


class StoredSecret(Struct, kw_only=True, frozen=True):
    """The hash of one secret of a key; a key that is rotated has two for a while."""

    salt: str
    digest: str
    # Unix seconds; None: as long as the key itself.
    valid_until: float | None = None


class ApiKeyRecord(Struct, kw_only=True, frozen=True):
    """One API key: bucket `pyoco_auth`, key `key.<key_id>`."""

    key_id: str
    tenant_id: str
    # For people.
    name: str = ""
    # None: all that the tenant may do.
    scopes: tuple[str, ...] = ()
    secrets: tuple[StoredSecret, ...]
    # Whether the hashes were made with a PYOCO_AUTH_PEPPER.
    peppered: bool
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None


class KeyUse(Struct, frozen=True):
    """When a key was last seen: bucket `pyoco_auth`, key `used.<key_id>`."""

    last_used_at: float


class ApiKeyExists(Exception):
    """There is a key of this id."""


class ApiKeys:
    """The `pyoco_auth` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.config.auth_kv_bucket
        self._bucket = Bucket(connection, self._name)

    async def create(self, record: ApiKeyRecord) -> None:
        try:
            await self._bucket.create(_KEY + record.key_id, msgspec.json.encode(record))
        except RevisionConflict:
            raise ApiKeyExists(record.key_id) from None

    async def change(
        self, key_id: str, change: Callable[[ApiKeyRecord], ApiKeyRecord]
    ) -> ApiKeyRecord | None:
        """Apply `change` to the record as it is when it is written; None if there is none."""
        while True:
            entry = await self._bucket.get_from_leader(_KEY + key_id)
            if entry is None:
                return None
            changed = change(_decode_key(entry.value))
            try:
                await self._write(key_id, changed, entry)
            except RevisionConflict:
                continue
            return changed

    async def _write(self, key_id: str, record: ApiKeyRecord, replaced: Entry) -> None:
        value = msgspec.json.encode(record)
        if value != replaced.value:
            await self._bucket.update(_KEY + key_id, value, revision=replaced.revision)

    async def note_use(self, key_id: str, at: float) -> None:
        """The last word wins: several gateways may see one key."""
        subject = f"$KV.{self._name}.{_USED}{key_id}"
        await publish_acked(self._connection, subject, msgspec.json.encode(KeyUse(at)))


class ApiKeyEntries:
    """What the messages of the bucket say, put together."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._prefix = f"$KV.{config.auth_kv_bucket}."
        self.records: dict[str, ApiKeyRecord] = {}
        self.last_used: dict[str, float] = {}
        # Subjects with a message, a deletion included.
        self.subjects: set[str] = set()

    def take(self, batch: list[StreamMessage]) -> bool:
        """Learn from these messages; whether a key is among them."""
        keys = False
        for message in batch:
            self.subjects.add(message.subject)
            entry = message.subject.removeprefix(self._prefix)
            gone = message.is_marker
            try:
                if entry.startswith(_KEY):
                    keys = True
                    self._take_key(entry.removeprefix(_KEY), None if gone else message.data)
                elif entry.startswith(_USED) and not gone:
                    self.last_used[entry.removeprefix(_USED)] = _decode_use(message.data).last_used_at
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                log.warning("the entry at %s cannot be read: %s", message.subject, error)
        return keys

    def _take_key(self, key_id: str, data: bytes | None) -> None:
        # First of all forgotten: a record that cannot be read must not leave an older one in force.
        self.records.pop(key_id, None)
        if data is not None:
            self.records[key_id] = _decode_key(data)


_decode_key = msgspec.json.Decoder(ApiKeyRecord).decode
_decode_use = msgspec.json.Decoder(KeyUse).decode
