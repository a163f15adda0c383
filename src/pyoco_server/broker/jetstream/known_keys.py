"""The keys of a bucket that a feed's reader knows, in memory: for buckets of thousands, not millions."""

from pyoco_server.broker.jetstream.feed_history import Checkpoint, KnownKey
from pyoco_server.broker.jetstream.stream_reads import StreamMessage


class KnownKeys:
    """What a `FeedReader` has to answer about its bucket."""

    def __init__(self, bucket: str) -> None:
        self._prefix = f"$KV.{bucket}."
        self._known: dict[str, KnownKey] = {}
        self.checkpoint = Checkpoint("", 0)
        self.markers = 0

    @property
    def entries(self) -> int:
        return len(self._known) - self.markers

    def key_in(self, message: StreamMessage) -> str:
        return message.subject.removeprefix(self._prefix)

    def begin(self, created: str) -> None:
        self._known.clear()
        self.markers = 0
        self.checkpoint = Checkpoint(created, 0)

    def add(self, batch: list[StreamMessage]) -> None:
        for message in batch:
            key = self.key_in(message)
            self._forget(key)
            self._known[key] = KnownKey(message.sequence, key, deleted=message.is_marker)
            self.markers += message.is_marker
        last = batch[-1]
        self.checkpoint = Checkpoint(self.checkpoint.created, last.sequence, last.stored_ns)

    def drop(self, revisions: list[int]) -> list[str]:
        """Forget the keys with these revisions; returns them."""
        gone = set(revisions)
        dropped = [key for key, known in self._known.items() if known.revision in gone]
        for key in dropped:
            self._forget(key)
        return dropped

    def forget_markers(self, keys: list[str]) -> None:
        for key in keys:
            if key in self._known and self._known[key].deleted:
                self._forget(key)

    def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        return self._between(after, None, deleted=True)[:limit]

    def others(self, after: int, upto: int, revisions: list[int], *, limit: int) -> list[tuple[int, str]]:
        excepted = set(revisions)
        found = self._between(after, upto, deleted=False)
        return [each for each in found if each[0] not in excepted][:limit]

    def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        below = [known for known in self._known.values() if known.revision < revision]
        return sorted(below, key=lambda known: known.revision, reverse=True)[:limit]

    def _between(self, after: int, upto: int | None, *, deleted: bool) -> list[tuple[int, str]]:
        return sorted(
            (known.revision, known.key)
            for known in self._known.values()
            if known.deleted is deleted
            and known.revision > after
            and (upto is None or known.revision <= upto)
        )

    def _forget(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self.markers -= known.deleted


class KnownKeysReader:
    """The part of a `FeedReader` that follows from its known keys."""

    def __init__(self, bucket: str) -> None:
        self._known = KnownKeys(bucket)

    @property
    def checkpoint(self) -> Checkpoint:
        return self._known.checkpoint

    @property
    def entries(self) -> int:
        return self._known.entries

    @property
    def markers(self) -> int:
        return self._known.markers

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        return self._known.first_markers(after=after, limit=limit)

    async def forget_markers(self, keys: list[str]) -> None:
        self._known.forget_markers(keys)

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        return self._known.others(after, upto, revisions, limit=limit)

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        return self._known.newest_below(revision, limit=limit)
