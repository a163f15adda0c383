"""All records of a bucket in memory, such as the hooks, templates and actions of `pyoco_triggers`.

The first part of a key says what its record is. The feed keeps the copy up to date; a gateway also puts in
what it has written itself.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.known_keys import KnownKeysReader
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.errors import IndexNotReady, UnreadableRecord
from pyoco_server.records.decoding import unreadable
from pyoco_server.records.unreadable_records import RecordKind

log = logging.getLogger(__name__)

# The key, and its record; None: it was removed.
Changed = Callable[[str, Any | None], None]


@dataclass(frozen=True, slots=True)
class _Section:
    """The records whose keys begin with one prefix."""

    kind: RecordKind
    decode: Callable[[bytes], Any]
    on_change: Changed | None


@dataclass(frozen=True, slots=True)
class _Row:
    record: Any
    revision: int


class RecordDirectory(KnownKeysReader):
    """The reader of the feed. Records have a property `key`."""

    def __init__(self, connection: Connection, *, bucket: str, of: str) -> None:
        """`of` says in words what is in the bucket."""
        self._of = of
        self._unreadable = connection.unreadable
        super().__init__(bucket)
        self._sections: dict[str, _Section] = {}
        self._rows: dict[str, _Row] = {}
        # Of keys that this gateway has removed itself, the revision of the marker.
        self._removed: dict[str, int] = {}
        self.ready = False
        self.feed = BucketFeed(connection, self, bucket=bucket, label=of, keys=">")
        self.feed.set_live(True)

    def follow(
        self,
        prefix: str,
        kind: RecordKind,
        decode: Callable[[bytes], Any],
        on_change: Changed | None = None,
    ) -> None:
        """Keep the records whose keys begin with `prefix` and a dot; called before `start`."""
        self._sections[prefix] = _Section(kind, decode, on_change)

    async def start(self) -> None:
        await self.feed.start()

    async def close(self) -> None:
        await self.feed.close()

    def get(self, key: str) -> Any | None:
        row = self._rows.get(key)
        return None if row is None else row.record

    def records(self, prefix: str) -> list[Any]:
        start = f"{prefix}."
        return [row.record for key, row in self._rows.items() if key.startswith(start)]

    async def caught_up(self, *, entirely: bool = False) -> None:
        """Wait until it has what was stored before the call; one that lags behind is used as it is.

        `entirely`: IndexNotReady if it lags behind, for what cannot be undone.
        """
        if not await self.feed.caught_up_in_time() and (entirely or not self.ready):
            raise IndexNotReady(f"the {self._of} are being read")

    async def has_read(self, revision: int) -> None:
        """Wait until it has what was stored up to this revision; IndexNotReady if it lags behind."""
        await self.caught_up()
        if self.checkpoint.revision < revision:
            raise IndexNotReady(f"the {self._of} are being read")

    def put(self, record: Any, revision: int) -> None:
        """This gateway has written or read this record."""
        key = record.key
        known = self._rows.get(key)
        if (known is not None and known.revision >= revision) or self._removed.get(key, 0) > revision:
            return
        self._rows[key] = _Row(record, revision)
        self._removed.pop(key, None)
        self._report(key, record)

    def remove(self, key: str, *, revision: int) -> None:
        """This gateway has removed exactly this revision."""
        known = self._rows.get(key)
        if known is None or known.revision <= revision:
            self._removed[key] = revision + 1
            self._forget(key)

    def _forget(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            self._report(key, None)

    def _report(self, key: str, record: Any | None) -> None:
        section = self._section_of(key)
        if section is not None and section.on_change is not None:
            section.on_change(key, record)

    def _section_of(self, key: str) -> _Section | None:
        return self._sections.get(key.partition(".")[0])

    # What the feed asks

    async def begin(self, created: str) -> None:
        self.ready = False
        for section in self._sections.values():
            self._unreadable.clear(section.kind)
        self._known.begin(created)
        self._removed.clear()
        for key in list(self._rows):
            self._forget(key)

    async def take(self, batch: list[StreamMessage]) -> None:
        for message, record in self._decoded(batch):
            key = self._known.key_in(message)
            if record is not None:
                self.put(record, message.sequence)
            elif (known := self._rows.get(key)) is not None and known.revision <= message.sequence:
                self._forget(key)
            if self._removed.get(key, message.sequence + 1) <= message.sequence:
                del self._removed[key]
        self._known.add(batch)

    async def up_to_date(self, state: StreamState) -> None:
        if not self.ready:
            self.ready = True
            log.info("the %s are read: %d", self._of, len(self._rows))

    async def drop(self, revisions: list[int]) -> None:
        for key in self._known.drop(revisions):
            self._forget(key)

    def _decoded(self, batch: list[StreamMessage]) -> Iterator[tuple[StreamMessage, Any | None]]:
        """Each message with its record; None for a marker, and for a record that cannot be read."""
        for message in batch:
            key = self._known.key_in(message)
            section = self._section_of(key)
            record = None
            if section is not None and not message.is_marker:
                try:
                    record = _read(key, message, section)
                except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others are read
                    problem = unreadable(error).detail
                    self._unreadable.add(section.kind, key, message.sequence, problem)
                else:
                    self._unreadable.remove(section.kind, key, older_than=message.sequence)
            yield message, record


def _read(key: str, message: StreamMessage, section: _Section) -> Any:
    record = section.decode(message.data)
    if record.key != key:
        raise UnreadableRecord(f"it is the record of {record.key}")
    return record
