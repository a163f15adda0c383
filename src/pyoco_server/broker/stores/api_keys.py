"""Stored API keys. Administrators and gateways write different entries.

`key.<key_id>` is the record of a key: only the admin commands write it. `used.<key_id>` is when a gateway saw
it last. So a gateway needs no right to create or change a key, and a use never overwrites a revocation.

A secret is never stored, only its keyed hash.
"""

import time
from collections.abc import Callable
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import (
    EVERYTHING,
    StreamMessage,
    StreamState,
    read_batch,
    require_end,
    stream_state,
)
from pyoco_server.records.decoding import json_record
from pyoco_server.records.models import Timestamp
from pyoco_server.records.unreadable_records import RecordKind

_KEY: Final = "key."
_USED: Final = "used."
_NEVER: Final = float("-inf")


class StoredSecret(Struct, kw_only=True, frozen=True):
    """The hash of one secret of a key; a key that is rotated has two for a while."""

    salt: str
    digest: str
    # Unix seconds; None: as long as the key itself.
    valid_until: Timestamp | None = None


class ApiKeyRecord(Struct, kw_only=True, frozen=True):
    """One API key: bucket `pyoco_auth`, key `key.<key_id>`."""

    key_id: str
    tenant_id: str
    # For display.
    name: str = ""
    # Empty: everything that the tenant may do.
    scopes: tuple[str, ...] = ()
    secrets: tuple[StoredSecret, ...]
    # Whether the hashes were made with a PYOCO_AUTH_PEPPER.
    peppered: bool
    created_at: Timestamp
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None


class KeyUse(Struct, frozen=True):
    """When a key was last seen: bucket `pyoco_auth`, key `used.<key_id>`."""

    last_used_at: Timestamp


class ApiKeyExists(Exception):
    """There is a key of this id."""


class ApiKeys:
    """The `pyoco_auth` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.config.auth_kv_bucket
        self._bucket = Bucket(connection, self._name)
        self._reader = RecordReader(connection, RecordKind.API_KEY, _decode_key, key_of=attrgetter("key_id"))

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
            changed = change(self._reader.read(key_id, entry))
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
        """The last write wins: several gateways may see one key."""
        subject = f"$KV.{self._name}.{_USED}{key_id}"
        await publish_acked(self._connection, subject, msgspec.json.encode(KeyUse(at)))


class ApiKeyEntries:
    """The entries of the bucket, by the messages that were read."""

    def __init__(self, connection: Connection) -> None:
        self._prefix = f"$KV.{connection.config.auth_kv_bucket}."
        self._unreadable = connection.unreadable
        self._unreadable.clear(RecordKind.API_KEY)
        self._keys = RecordReader(connection, RecordKind.API_KEY, _decode_key, key_of=attrgetter("key_id"))
        self._uses = RecordReader(connection, RecordKind.API_KEY, _decode_use)
        self.records: dict[str, ApiKeyRecord] = {}
        self.last_used: dict[str, float] = {}
        # Subjects with a message, markers included.
        self.subjects: set[str] = set()

    def take(self, batch: list[StreamMessage]) -> bool:
        """Apply these messages; return whether a key is among them."""
        keys = False
        for message in batch:
            self.subjects.add(message.subject)
            name = message.subject.removeprefix(self._prefix)
            entry = None if message.is_marker else Entry(message.data, message.sequence)
            if name.startswith(_KEY):
                keys = True
                self._take_key(name.removeprefix(_KEY), entry)
            elif name.startswith(_USED) and entry is not None and (use := self._uses.find(name, entry)):
                self.last_used[name.removeprefix(_USED)] = use.last_used_at
        return keys

    def _take_key(self, key_id: str, entry: Entry | None) -> None:
        # First removed: an unreadable record must not leave an older one in force.
        self.records.pop(key_id, None)
        if entry is None:
            self._unreadable.remove(RecordKind.API_KEY, key_id)
        elif (record := self._keys.find(key_id, entry)) is not None:
            self.records[key_id] = record


_decode_key = json_record(ApiKeyRecord)
_decode_use = json_record(KeyUse)


class ApiKeyMirror:
    """A copy of the bucket, with the time as of which it is correct.

    `look` asks the leader how far there is to read, and reads what is new; the copy is correct as of the time
    of that request. Writes are announced at once, but an announcement is only a hint to look: the write may
    be refused, and the hint may be lost.

    After an interruption the whole bucket is read: its server may have lost the newest writes, and used their
    revisions for others since. There are few keys, and a missed revocation must not stay missed.
    """

    def __init__(self, connection: Connection, on_hint: Callable[[], None] | None = None) -> None:
        bucket = connection.config.auth_kv_bucket
        self._connection = connection
        self._stream = f"KV_{bucket}"
        self._on_hint = on_hint
        self._subscription = RenewableSubscription(connection, self._on_write, f"$KV.{bucket}.key.*")
        self._created = ""
        self._revision = 0
        # The connection's count of interruptions at the last `look`; None after one that failed.
        self._looked_at: int | None = None
        self.entries = ApiKeyEntries(connection)
        # By the monotonic clock.
        self.correct_as_of = _NEVER

    async def look(self) -> bool:
        """Read what was written since; return whether a key was. NatsUnavailable when that is unknown."""
        if self._on_hint is not None:
            await self._subscription.renew()
        began = time.monotonic()
        interruptions = self._connection.interruptions
        looked_at, self._looked_at = self._looked_at, None
        state = await stream_state(self._connection, self._stream)
        changed = False
        if looked_at != interruptions or self._is_replaced(state):
            self._forget(state)
            changed = True
        changed |= await self._read(state)
        if len(self.entries.subjects) != state.messages:
            # An entry was removed without a marker: only the whole bucket shows which.
            self._forget(state)
            await self._read(state)
            changed = True
        self._looked_at = interruptions
        self.correct_as_of = began
        return changed

    def _on_write(self, _: Message) -> None:
        assert self._on_hint is not None
        self._on_hint()

    def _is_replaced(self, state: StreamState) -> bool:
        return state.created != self._created or state.last_sequence < self._revision

    def _forget(self, state: StreamState) -> None:
        self._created = state.created
        self._revision = 0
        self.entries = ApiKeyEntries(self._connection)

    async def _read(self, state: StreamState) -> bool:
        changed = False
        while self._revision < state.last_sequence:
            batch = await read_batch(self._connection, self._stream, EVERYTHING, after=self._revision)
            if not batch:
                await require_end(self._connection, self._stream, after=self._revision)
                # The last messages were removed.
                self._revision = state.last_sequence
                break
            changed |= self.entries.take(batch)
            self._revision = batch[-1].sequence
        return changed
