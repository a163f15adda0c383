"""Reads the stored records of one kind, and reports those that cannot be read.

Such a record stops nothing but itself. A caller that needs it gets UnreadableRecord; one that reads many
leaves it out. Feeds decode their messages themselves (runs/index/sqlite/index_feed.py).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.decoding import owner_in, unreadable
from pyoco_server.records.unreadable_records import RecordKind

T = TypeVar("T")


class RecordReader(Generic[T]):
    def __init__(
        self,
        connection: Connection,
        kind: RecordKind,
        decode: Callable[[bytes], T],
        *,
        key_of: Callable[[T], str] | None = None,
    ) -> None:
        """`key_of` is the key that a record names itself, which must be the one it is stored under."""
        self._known = connection.unreadable
        self._kind = kind
        self._decode = decode
        self._key_of = key_of

    def read(self, key: str, entry: Entry) -> T:
        """The record; UnreadableRecord if it cannot be read."""
        try:
            record = self._decode(entry.value)
            if self._key_of is not None and (named := self._key_of(record)) != key:
                raise UnreadableRecord(f"it is the record of {named[:100]!r}")
        except Exception as error:
            problem = unreadable(error)
            self._known.add(self._kind, key, entry.revision, problem.detail)
            detail = f"{self._kind} {key}, revision {entry.revision}: {problem.detail}"
            raise UnreadableRecord(detail, owner=owner_in(entry.value)) from error
        self._known.remove(self._kind, key)
        return record

    def find(self, key: str, entry: Entry) -> T | None:
        """The record; None if it cannot be read."""
        try:
            return self.read(key, entry)
        except UnreadableRecord:
            return None

    def in_stream(self, belongs_to: str, message: StreamMessage) -> T | None:
        """The record in a message of a stream, in which nothing is replaced; None if it cannot be read."""
        return self.find(f"{belongs_to}#{message.sequence}", Entry(message.data, message.sequence))
